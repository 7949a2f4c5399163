//! A group's directory, held by descriptor.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno as Nix;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::figure::Figure;
use super::place::Base;
use super::{Controller, GroupError};
use crate::fault::Errno;

/// The directory beneath which a group is made.
#[derive(Debug)]
pub(super) struct Parent {
    fd: OwnedFd,
    /// Where it was when it was opened; for messages only.
    path: PathBuf,
    pub(super) keeps: Vec<Controller>,
}

impl Parent {
    pub(super) fn open(base: &Base) -> Result<Self, GroupError> {
        let path = base.path.clone();
        match open(&path, held(), Mode::empty()) {
            Ok(fd) => Ok(Self {
                fd,
                path,
                keeps: base.keeps.clone(),
            }),
            Err(errno) => Err(GroupError::OpenPlace {
                path,
                errno: errno.into(),
            }),
        }
    }

    /// An old directory of that name gives way to a new one: it may have limits, and has counted.
    pub(super) fn make(&self, name: &str) -> Result<Directory, GroupError> {
        let path = self.path.join(name);
        let mode = Mode::from_bits_truncate(0o755);
        let made = match mkdirat(&self.fd, name, mode) {
            Err(Nix::EEXIST) => match unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir) {
                Err(Nix::EBUSY) => return Err(GroupError::Taken { path }),
                removed => removed.and_then(|()| mkdirat(&self.fd, name, mode)),
            },
            made => made,
        };
        match made.and_then(|()| openat(&self.fd, name, held(), Mode::empty())) {
            Ok(fd) => Ok(Directory { fd, path }),
            Err(errno) => Err(GroupError::Make {
                path,
                errno: errno.into(),
            }),
        }
    }

    /// The last process may be on its way out for a moment after it was waited for, and version 1 has nothing
    /// that tells when it has gone.
    pub(super) fn remove(&self, name: &str) -> Result<(), GroupError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        const PAUSE: Duration = Duration::from_micros(200);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir) {
                Ok(()) | Err(Nix::ENOENT) => return Ok(()),
                Err(Nix::EBUSY) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(errno) => {
                    return Err(GroupError::Remove {
                        path: self.path.join(name),
                        errno: errno.into(),
                    });
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(super) fn open_to_write(&self, file: &str) -> Result<File, GroupError> {
        self.open(file, OFlag::O_WRONLY)
    }

    pub(super) fn figure(&self, name: &'static str) -> Result<Figure, GroupError> {
        self.figure_as(name, OFlag::O_RDONLY)
    }

    /// One that can also be written to.
    pub(super) fn resettable_figure(&self, name: &'static str) -> Result<Figure, GroupError> {
        self.figure_as(name, OFlag::O_RDWR)
    }

    fn figure_as(&self, name: &'static str, flags: OFlag) -> Result<Figure, GroupError> {
        let file = self.open(name, flags)?;
        Ok(Figure { file, name })
    }

    fn open(&self, file: &str, flags: OFlag) -> Result<File, GroupError> {
        match openat(&self.fd, file, flags | OFlag::O_CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(File::from(fd)),
            Err(errno) => Err(GroupError::Open {
                path: self.path.join(file),
                errno: errno.into(),
            }),
        }
    }
}

/// The kernel wants the whole text in one call. Makes no other, and needs no memory.
pub(super) fn write(file: &File, text: &[u8]) -> Result<(), Errno> {
    nix::unistd::write(file, text).map(drop).map_err(Errno::from)
}

fn held() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}
