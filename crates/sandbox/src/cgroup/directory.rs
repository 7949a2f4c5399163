//! The directory of a control group, held by its descriptor.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno as Nix;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::root::RootDirectory;
use super::stat_file::StatFile;
use super::{CgroupController, CgroupError};
use crate::platform_error::Errno;

/// The open directory of a [`super::CgroupRoot`] in one cgroup hierarchy, in which a warden creates its control group.
#[derive(Debug)]
pub(super) struct OpenRootDirectory {
    fd: OwnedFd,
    /// The path when the directory was opened; only for messages.
    path: PathBuf,
    pub(super) controllers: Vec<CgroupController>,
}

impl OpenRootDirectory {
    pub(super) fn open(directory: &RootDirectory) -> Result<Self, CgroupError> {
        let path = directory.path.clone();
        match open(&path, path_flags(), Mode::empty()) {
            Ok(fd) => Ok(Self {
                fd,
                path,
                controllers: directory.controllers.clone(),
            }),
            Err(errno) => Err(CgroupError::OpenRoot {
                path,
                errno: errno.into(),
            }),
        }
    }

    /// Creates a group. An old group of the same name is replaced, because it may have limits and its counters are
    /// not zero.
    pub(super) fn create(&self, name: &str) -> Result<CgroupDirectory, CgroupError> {
        let path = self.path.join(name);
        let mode = Mode::from_bits_truncate(0o755);
        let created = match mkdirat(&self.fd, name, mode) {
            Err(Nix::EEXIST) => match unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir) {
                Err(Nix::EBUSY) => return Err(CgroupError::Occupied { path }),
                removed => removed.and_then(|()| mkdirat(&self.fd, name, mode)),
            },
            created => created,
        };
        match created.and_then(|()| openat(&self.fd, name, path_flags(), Mode::empty())) {
            Ok(fd) => Ok(CgroupDirectory { fd, path }),
            Err(errno) => Err(CgroupError::Create {
                path,
                errno: errno.into(),
            }),
        }
    }

    /// Removes a group. The last process may hold it for a moment after it was reaped, and version 1 reports no event
    /// when that ends.
    pub(super) fn remove(&self, name: &str) -> Result<(), CgroupError> {
        const KILL_TIMEOUT: Duration = Duration::from_secs(10);
        const PAUSE: Duration = Duration::from_micros(200);
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            match unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir) {
                Ok(()) | Err(Nix::ENOENT) => return Ok(()),
                Err(Nix::EBUSY) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(errno) => {
                    return Err(CgroupError::Remove {
                        path: self.path.join(name),
                        errno: errno.into(),
                    });
                }
            }
        }
    }
}

/// The open directory of a warden's control group in one cgroup hierarchy.
#[derive(Debug)]
pub(super) struct CgroupDirectory {
    pub(super) fd: OwnedFd,
    path: PathBuf,
}

impl CgroupDirectory {
    pub(super) fn open_to_write(&self, file: &str) -> Result<File, CgroupError> {
        self.open(file, OFlag::O_WRONLY)
    }

    pub(super) fn open_stat_file(&self, name: &'static str) -> Result<StatFile, CgroupError> {
        self.open_stat_file_with(name, OFlag::O_RDONLY)
    }

    /// Opens a file of measurements that can also be reset.
    pub(super) fn open_resettable_stat_file(&self, name: &'static str) -> Result<StatFile, CgroupError> {
        self.open_stat_file_with(name, OFlag::O_RDWR)
    }

    fn open_stat_file_with(&self, name: &'static str, flags: OFlag) -> Result<StatFile, CgroupError> {
        let file = self.open(name, flags)?;
        Ok(StatFile { file, name })
    }

    fn open(&self, file: &str, flags: OFlag) -> Result<File, CgroupError> {
        match openat(&self.fd, file, flags | OFlag::O_CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(File::from(fd)),
            Err(errno) => Err(CgroupError::Open {
                path: self.path.join(file),
                errno: errno.into(),
            }),
        }
    }
}

/// Passes the whole text to the kernel in one call, as it requires. Makes no other call and allocates nothing.
pub(super) fn write(file: &File, text: &[u8]) -> Result<(), Errno> {
    nix::unistd::write(file, text).map(drop).map_err(Errno::from)
}

fn path_flags() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}
