//! Charges the files of a task to its control group.
//!
//! The kernel charges a page of a tmpfs file to the group of the process that allocates it, and the owner that writes
//! the files is not in the task's group. So a process in the group first allocates the files, and the owner then
//! fills them.
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

use super::CellFactory;
use super::settings::WORKSPACE;
use super::setup_step::{AtSetupStep, CellSetupStep};
use crate::cgroup::Cgroup;
use crate::platform_error::{Errno, PlatformError};
use crate::wire;

/// A file of a task whose memory is to be charged to the task's cgroup: its path and its size. The file exists and is
/// empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAllocation {
    /// The path within the task's folder.
    #[serde(with = "wire::path")]
    pub path: PathBuf,
    pub bytes: u64,
}

impl CellFactory {
    /// Charges these files, which exist and are empty, to the group, in addition to the memory limit of the next
    /// command. If they exceed the task's space, the owner gets that error when it fills them.
    pub(crate) fn allocate_files(&mut self, files: &[FileAllocation]) -> Result<(), PlatformError> {
        let Some(group) = self.group.as_mut().filter(|group| group.limits_memory()) else {
            return Ok(());
        };
        // The memory limit of the last command may be too low for the files. The task's space limits them.
        group.lift_memory_limit()?;
        let before = group.current_memory()?.unwrap_or(0);
        match allocate_in(group, files) {
            // This is more than the size of the files, because the kernel's page lists are charged too.
            Ok(()) | Err(Errno(libc::ENOSPC)) => {
                self.charged_file_bytes += group.current_memory()?.unwrap_or(0).saturating_sub(before);
                Ok(())
            }
            Err(errno) => Err(errno)
                .at(CellSetupStep::AllocateFiles)
                .map_err(PlatformError::from),
        }
    }

    /// The bytes charged to the group in addition to the command's memory.
    pub(crate) fn charged_file_bytes(&self) -> u64 {
        self.charged_file_bytes
    }
}

/// No command may be running in the task's file system, because the paths are not protected against changes.
fn allocate_in(group: &Cgroup, files: &[FileAllocation]) -> Result<(), Errno> {
    // SAFETY: this process has one thread, so its child may do everything that the process itself may do. The
    // processes that share its memory make bare calls only.
    match unsafe { fork() }.map_err(Errno::from)? {
        ForkResult::Parent { child } => loop {
            match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
                Ok(WaitStatus::Exited(_, errno)) => return Err(Errno(errno)),
                // The child is ended only by the kernel, when memory runs out.
                Ok(_) => return Err(Errno(libc::ENOMEM)),
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        },
        ForkResult::Child => {
            let code = allocate_all(group, files).map_or_else(|Errno(errno)| errno, |()| 0);
            // SAFETY: the child must not run the exit handlers of its parent.
            unsafe { libc::_exit(code) }
        }
    }
}

fn allocate_all(group: &Cgroup, files: &[FileAllocation]) -> Result<(), Errno> {
    set_pdeathsig(Signal::SIGKILL)?;
    for procs_file in group.procs_files() {
        let mut procs_file = std::fs::File::from(procs_file.try_clone_to_owned()?);
        procs_file.write_all(b"0")?;
    }
    for FileAllocation { path, bytes } in files.iter().filter(|file| file.bytes > 0) {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(Path::new(WORKSPACE).join(path))?;
        let bytes = i64::try_from(*bytes).map_err(|_| Errno(libc::EFBIG))?;
        fallocate(file.as_fd(), FallocateFlags::empty(), 0, bytes)?;
    }
    Ok(())
}
