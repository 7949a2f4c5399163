//! A network of one's own, in which there is nobody else.
#![allow(unsafe_code)]

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::AsRawFd;

use crate::fault::Errno;

/// Used once: a port that a task has closed stays taken for a while.
pub(super) fn make() -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero request is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is valid and names an interface that every network namespace has.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}
