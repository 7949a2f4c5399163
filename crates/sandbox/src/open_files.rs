//! How many files this process may have open. A service raises its own limit; commands keep the one that it was started
//! with, since a program may take a high limit for a reason to use it.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The limits that this process was started with, once it has raised its own.
static INHERITED: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the soft limit of this process to the hard one, and returns it. Wardens get the limits as they were before.
pub fn raise_open_files() -> io::Result<u64> {
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

/// For a process that was just started and has begun nothing yet.
pub(crate) fn restore_inherited(pid: u32) -> io::Result<()> {
    let Some(limits) = INHERITED.get() else {
        return Ok(());
    };
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: `limits` lives for as long as the call, and the limits as they were are not asked for.
    match unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, limits, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
