//! Giving up power, one call for each kind of it.
#![allow(unsafe_code)]

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, RawFd};

use libc::{c_int, c_uint, c_ulong};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

use crate::fault::Errno;

/// The kernel kills this process when the one that started it ends.
pub(super) fn die_with_parent() -> Result<(), Errno> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong)
}

/// All signals do what they do by default, and none is blocked.
pub(super) fn reset_signals() {
    // SAFETY: sets no handler. Signals whose action cannot be set stay as they are.
    unsafe {
        for signal in 1..libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
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

pub(super) fn drop_capabilities() -> Result<(), Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // Effective, permitted and inheritable, twice 32 bits each.
    let none = [0_u32; 6];
    prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong)?;
    // SAFETY: header and sets have the layout of this version.
    match unsafe { libc::syscall(libc::SYS_capset, &header, none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

pub(super) fn forbid_new_privileges() -> Result<(), Errno> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// For the first process of a cell, which needs nothing but to wait. Not to be looked into even by processes of the
/// same user.
pub(super) fn give_up() -> Result<(), Errno> {
    reset_signals();
    drop_capabilities()?;
    forbid_new_privileges()?;
    prctl(libc::PR_SET_DUMPABLE, 0)
}

/// Keeps one descriptor, as the first, and the lock.
pub(super) fn keep_only(kept: BorrowedFd<'_>, lock: Option<RawFd>) -> Result<(), Errno> {
    // SAFETY: nothing in this process uses a descriptor after this but by `first_descriptor`.
    unsafe {
        if libc::dup2(kept.as_raw_fd(), 0) < 0 {
            return Err(Errno::last());
        }
        if libc::dup2(lock.unwrap_or(0), 1) < 0 {
            return Err(Errno::last());
        }
    }
    close_from(2)
}

pub(super) fn first_descriptor() -> ManuallyDrop<File> {
    // SAFETY: descriptor 0 is what `keep_only` put there, and is not closed by this.
    ManuallyDrop::new(unsafe { File::from_raw_fd(0) })
}

pub(super) fn close_from(first: c_uint) -> Result<(), Errno> {
    // SAFETY: the caller is about to exec, or owns nothing beyond.
    match unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// Which child ended, and how.
pub(super) fn wait_for_any() -> Result<(i32, i32), Errno> {
    loop {
        let mut status = 0;
        // SAFETY: the status is a valid place.
        match unsafe { libc::waitpid(-1, &mut status, 0) } {
            -1 if Errno::last() == Errno(libc::EINTR) => {}
            -1 => return Err(Errno::last()),
            ended => return Ok((ended, status)),
        }
    }
}

fn prctl(option: c_int, value: c_ulong) -> Result<(), Errno> {
    let zero: c_ulong = 0;
    // SAFETY: only options that take numbers are passed here.
    match unsafe { libc::prctl(option, value, zero, zero, zero) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}
