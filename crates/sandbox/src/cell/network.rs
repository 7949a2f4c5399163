//! Networks that the operator has made.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::fault::Errno;

/// `EINVAL` for what is there and is no network namespace.
pub(crate) fn open_network(path: &Path) -> Result<OwnedFd, Errno> {
    let file = open(
        path,
        OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    // SAFETY: this question takes no argument.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), libc::NS_GET_NSTYPE) };
    match kind {
        libc::CLONE_NEWNET => Ok(file),
        _ => Err(Errno(libc::EINVAL)),
    }
}
