//! What processes share that is in no file system: System V memory, semaphores and queues, and POSIX queues. It can
//! outlive them. A namespace in which none is left serves the next task too; another would cost a tenth of its cell.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;

use super::mount::make_detached;
use crate::fault::Errno;

#[derive(Debug)]
pub(super) struct Ipc {
    /// Where the POSIX queues of the namespace can be seen.
    queues: Dir,
}

impl Ipc {
    /// A new namespace, which this process moves to.
    pub(super) fn make() -> Result<Self, Errno> {
        unshare(CloneFlags::CLONE_NEWIPC)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            queues: Dir::openat(make_detached(c"mqueue")?, ".", flags, Mode::empty())?,
        })
    }

    pub(super) fn queues(&self) -> BorrowedFd<'_> {
        self.queues.as_fd()
    }

    /// Whether all is gone that was made here.
    pub(super) fn is_empty(&mut self) -> Result<bool, Errno> {
        Ok(system_v_objects()? == 0 && !self.has_queues()?)
    }

    fn has_queues(&mut self) -> Result<bool, Errno> {
        for entry in self.queues.iter() {
            if ![c".", c".."].contains(&entry?.file_name()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn system_v_objects() -> Result<c_int, Errno> {
    /// Not in every release of `libc`.
    const SHM_INFO: c_int = 14;
    #[repr(C)]
    struct SharedMemory {
        segments: c_int,
        others: [libc::c_ulong; 8],
    }
    // SAFETY: all-zero values are valid; each call writes to a value that is at least as large as what it gives.
    unsafe {
        let mut memory: SharedMemory = std::mem::zeroed();
        let mut semaphores: libc::seminfo = std::mem::zeroed();
        let mut queues: libc::msginfo = std::mem::zeroed();
        let asked = [
            libc::shmctl(0, SHM_INFO, (&raw mut memory).cast()),
            libc::semctl(0, 0, libc::SEM_INFO, &raw mut semaphores),
            libc::msgctl(0, libc::MSG_INFO, (&raw mut queues).cast()),
        ];
        match asked.contains(&-1) {
            true => Err(Errno::last()),
            // These fields stand for the number of sets and of queues when the kernel is asked in this way.
            false => Ok(memory.segments + semaphores.semusz + queues.msgpool),
        }
    }
}
