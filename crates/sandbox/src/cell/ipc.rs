//! The ipc namespace: System V shared memory, semaphores and queues, and POSIX message queues. Such objects can
//! outlive their processes. An empty namespace is reused for the next task, because a new one takes a tenth of the
//! time of creating a cell.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;

use super::mount::make_detached;
use crate::platform_error::Errno;

/// The IPC namespace that a warden is in and its cells inherit; it is replaced before the next cell if a command has
/// left objects in it.
#[derive(Debug)]
pub(super) struct IpcNamespace {
    /// The mounted POSIX message queues of the namespace.
    message_queues: Dir,
}

impl IpcNamespace {
    /// Creates a new namespace and moves this process into it.
    pub(super) fn create() -> Result<Self, Errno> {
        unshare(CloneFlags::CLONE_NEWIPC)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            message_queues: Dir::openat(make_detached(c"mqueue")?, ".", flags, Mode::empty())?,
        })
    }

    pub(super) fn message_queues(&self) -> BorrowedFd<'_> {
        self.message_queues.as_fd()
    }

    /// Whether nothing is left that a command created here.
    pub(super) fn is_empty(&mut self) -> Result<bool, Errno> {
        Ok(system_v_objects()? == 0 && !self.has_message_queues()?)
    }

    fn has_message_queues(&mut self) -> Result<bool, Errno> {
        for entry in self.message_queues.iter() {
            if ![c".", c".."].contains(&entry?.file_name()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn system_v_objects() -> Result<c_int, Errno> {
    /// Some releases of `libc` lack this constant.
    const SHM_INFO: c_int = 14;
    /// The kernel's `struct shm_info`, in which `shmctl(SHM_INFO)` returns how many shared memory segments exist.
    #[repr(C)]
    struct ShmInfo {
        segments: c_int,
        others: [libc::c_ulong; 8],
    }
    // SAFETY: all-zero values are valid, and each value is at least as large as what its call writes.
    unsafe {
        let mut memory: ShmInfo = std::mem::zeroed();
        let mut semaphores: libc::seminfo = std::mem::zeroed();
        let mut message_queues: libc::msginfo = std::mem::zeroed();
        let results = [
            libc::shmctl(0, SHM_INFO, (&raw mut memory).cast()),
            libc::semctl(0, 0, libc::SEM_INFO, &raw mut semaphores),
            libc::msgctl(0, libc::MSG_INFO, (&raw mut message_queues).cast()),
        ];
        match results.contains(&-1) {
            true => Err(Errno::last()),
            // With these requests the kernel puts the number of sets and of queues into these fields.
            false => Ok(memory.segments + semaphores.semusz + message_queues.msgpool),
        }
    }
}
