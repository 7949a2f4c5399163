//! Giving up power, one call for each kind of it.
#![allow(unsafe_code)]

use libc::{c_int, c_ulong};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::fault::Errno;
use crate::warden::signals;

/// The kernel kills this process when the one that started it ends.
pub(super) fn die_with_parent() -> Result<(), Errno> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong)
}

/// All signals do what they do by default, and none is blocked. Those that the warden has not taken do so already.
pub(super) fn reset_signals() {
    // SAFETY: sets no handler.
    unsafe {
        for signal in signals::TAKEN {
            libc::signal(signal as c_int, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// No program that is executed from here on can get a capability, whatever its file says.
pub(super) fn bound_capabilities() -> Result<(), Errno> {
    for capability in 0.. {
        match prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // Beyond the last one that this kernel knows.
            Err(Errno(libc::EINVAL)) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(super) fn become_group(gid: Gid) -> Result<(), Errno> {
    setgroups(&[])?;
    Ok(setresgid(gid, gid, gid)?)
}

pub(super) fn become_user(uid: Uid) -> Result<(), Errno> {
    Ok(setresuid(uid, uid, uid)?)
}

/// Not to be looked into, even by processes of the same user. Until it executes a program.
pub(super) fn hide() -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, 0)
}

fn prctl(option: c_int, value: c_ulong) -> Result<(), Errno> {
    let zero: c_ulong = 0;
    // SAFETY: only options that take numbers are passed here.
    match unsafe { libc::prctl(option, value, zero, zero, zero) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}
