//! The limit on open files of this process. A service raises its own soft limit. Commands get the limit that the
//! service was started with, because some programs use as many descriptors as the limit allows.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limits that this process was started with; set once it has raised its own.
static INHERITED: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the soft limit of this process to the hard limit and returns it. Wardens still start with the earlier
/// limits.
pub fn raise_open_file_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        INHERITED.get_or_init(|| libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        });
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// Gives a child process the limits that this process was started with. The child must not have opened anything yet.
pub(crate) fn restore_inherited_limit(pid: u32) -> io::Result<()> {
    let Some(limits) = INHERITED.get() else {
        return Ok(());
    };
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `limits` outlives the call, and the null pointer says that the old limits are not wanted.
    match unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, limits, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
