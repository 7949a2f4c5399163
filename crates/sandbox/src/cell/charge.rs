//! Has the files that a task brings count as memory of its control group.
//!
//! The kernel charges a page of a file in memory to the process that allocates it, and the owner that writes the files is
//! in no group of the task. So a process in the group allocates them first, empty, and the owner fills them.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use serde::{Deserialize, Serialize};

use super::Cells;
use super::settings::WORKSPACE;
use super::step::{At, Step};
use crate::cgroup::Group;
use crate::fault::{Errno, Fault};
use crate::wire;

/// A file that is there, and the bytes that it will have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSize {
    /// Beneath the folder of the task.
    #[serde(with = "wire::path")]
    pub path: PathBuf,
    pub bytes: u64,
}

impl Cells {
    /// Has these files, which are there and empty, count as memory of the group, in addition to what the next command is
    /// given. Where they do not fit into the task's space, whoever fills them will find that out.
    pub(crate) fn charge(&mut self, files: &[FileSize]) -> Result<(), Fault> {
        let Some(group) = self.group.as_mut().filter(|group| group.keeps_memory()) else {
            return Ok(());
        };
        // That of the last command may be too low for them; they are bounded by the task's space.
        group.lift_memory()?;
        let before = group.held()?.unwrap_or(0);
        match allocate_in(group, files) {
            // More than the files themselves: the kernel's lists of their pages are charged too.
            Ok(()) | Err(Errno(libc::ENOSPC)) => {
                self.laid_out += group.held()?.unwrap_or(0).saturating_sub(before);
                Ok(())
            }
            Err(errno) => Err(errno).at(Step::Charge).map_err(Fault::from),
        }
    }

    /// What the group holds beside the memory of the command.
    pub(crate) fn laid_out(&self) -> u64 {
        self.laid_out
    }
}

/// Must be called when no command is at work in the task's file system: the paths are taken as they are.
fn allocate_in(group: &Group, files: &[FileSize]) -> Result<(), Errno> {
    // SAFETY: this process has one thread, so its child may do all that it may itself. Others share its memory, and make
    // bare calls only.
    match unsafe { fork() }.map_err(Errno::from)? {
        ForkResult::Parent { child } => loop {
            match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
                Ok(WaitStatus::Exited(_, errno)) => return Err(Errno(errno)),
                // Only the kernel ends it, for want of memory.
                Ok(_) => return Err(Errno(libc::ENOMEM)),
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        },
        ForkResult::Child => {
            let code = allocate(group, files).map_or_else(|Errno(errno)| errno, |()| 0);
            // SAFETY: nothing of the parent's is to be done at the child's end.
            unsafe { libc::_exit(code) }
        }
    }
}

fn allocate(group: &Group, files: &[FileSize]) -> Result<(), Errno> {
    set_pdeathsig(Signal::SIGKILL)?;
    for entrance in group.entrances() {
        let mut entrance = std::fs::File::from(entrance.try_clone_to_owned()?);
        entrance.write_all(b"0")?;
    }
    for FileSize { path, bytes } in files.iter().filter(|file| file.bytes > 0) {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(Path::new(WORKSPACE).join(path))?;
        let bytes = i64::try_from(*bytes).map_err(|_| Errno(libc::EFBIG))?;
        fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes)?;
    }
    Ok(())
}
