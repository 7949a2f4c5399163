//! OOM notifications of version 1: an eventfd that becomes readable when the memory of a group runs out.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};

use super::directory::{CgroupDirectory, write};
use super::stat_file::StatFile;

/// An eventfd that is registered for the OOM events of one cgroup v1 control group.
#[derive(Debug)]
pub(super) struct OomEventFd(File);

impl OomEventFd {
    /// Returns `None` if the kernel does not support it; then the counter has to be read from time to time.
    pub(super) fn register(directory: &CgroupDirectory, events: &StatFile) -> Option<Self> {
        // SAFETY: the call takes two numbers and touches no memory.
        let counter = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if counter < 0 {
            return None;
        }
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        let counter = unsafe { File::from_raw_fd(counter) };
        let request = format!("{} {}", counter.as_raw_fd(), events.file.as_raw_fd());
        let control = directory.open_to_write("cgroup.event_control").ok()?;
        write(&control, request.as_bytes()).ok()?;
        Some(Self(counter))
    }

    pub(super) fn clear(&self) {
        // The read fails if there is no event.
        let _ = (&self.0).read(&mut [0; 8]);
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
