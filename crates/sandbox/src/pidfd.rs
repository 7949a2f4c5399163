//! Process file descriptors.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A process by its descriptor (pidfd), which the sandbox uses to signal and await it. Unlike a process id, it never
/// refers to another process.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    pub(crate) fn open(pid: i32) -> nix::Result<Self> {
        // SAFETY: the call takes two numbers and touches no memory.
        let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    pub(crate) fn send(&self, signal: libc::c_int) -> nix::Result<()> {
        let fd = self.0.as_raw_fd();
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open as long as `self` exists, and the kernel accepts a null info.
        Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, no_info, 0) }).map(drop)
    }

    /// Returns whether the process ended within the time.
    pub(crate) fn wait(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(0) if left.is_zero() => return false,
                Ok(0) | Err(Errno::EINTR) => continue,
                ended => return ended.is_ok(),
            }
        }
    }
}
