//! How version 1 tells that a group's memory ran out: through a counter that becomes readable.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use super::directory::{Directory, write};
use super::figure::Figure;

#[derive(Debug)]
pub(super) struct Alarm(File);

impl Alarm {
    /// None where the kernel does not offer it; then whoever wants to know has to look.
    pub(super) fn set(directory: &Directory, events: &Figure) -> Option<Self> {
        // SAFETY: takes two numbers and touches no memory of ours.
        let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if counter < 0 {
            return None;
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let counter = unsafe { File::from_raw_fd(counter) };
        let request = format!("{} {}", counter.as_raw_fd(), events.file.as_raw_fd());
        let control = directory.open_to_write("cgroup.event_control").ok()?;
        write(&control, request.as_bytes()).ok()?;
        Some(Self(counter))
    }

    pub(super) fn silence(&self) {
        // Fails where it is silent.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
