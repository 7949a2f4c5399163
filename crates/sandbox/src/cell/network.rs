//! The networks that a cell can be in.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::platform_error::Errno;

/// The name of the loopback network, which a command in any cell may ask for.
pub const LOOPBACK_NETWORK: &str = "loopback";

/// The network namespace in which a cell runs: the warden's empty one, a new one, or one of the operator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellNetwork {
    /// The network namespace of the warden, which has no usable interface.
    Empty,
    /// A new network namespace with only a loopback interface.
    Loopback,
    /// A network namespace that the operator has created, by its descriptor.
    Named(RawFd),
}

/// Opens a network namespace that the operator has created. The error is `EINVAL` if the file is something else.
pub(crate) fn open_network(path: &Path) -> Result<OwnedFd, Errno> {
    let file = open(
        path,
        OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    // SAFETY: this request takes no argument.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), libc::NS_GET_NSTYPE) };
    match kind {
        libc::CLONE_NEWNET => Ok(file),
        _ => Err(Errno(libc::EINVAL)),
    }
}
