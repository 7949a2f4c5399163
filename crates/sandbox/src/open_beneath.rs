//! Opens files that commands have left, beneath a folder and without following links.
//!
//! Both sides of a warden use this: its owner, and the warden itself for files that the owner may not open.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno as Nix;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fstat};
use serde::{Deserialize, Serialize};

use crate::platform_error::Errno;

/// What a file that commands have left is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenPurpose {
    /// To read the content of a file. A pipe does not block, but it is opened: the caller checks what it got.
    Content,
    /// To list the entries of a folder.
    Entries,
    /// To read the type and size of a file. Nothing is read, and a link is opened itself.
    Status,
}

/// Opens a file or folder by its path beneath a folder; `.` is the folder itself. Fails if the path leaves the folder, or if a
/// part of it is a link or on another file system.
pub fn open_beneath(folder: BorrowedFd<'_>, path: &Path, purpose: OpenPurpose) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    let how = OpenHow::new().flags(purpose.flags()).resolve(resolve);
    match openat2(folder, path, how) {
        // Kernels before 5.6 and old seccomp profiles of containers do not have this call. A file that may not be opened has
        // the second error, too; then the attempt part by part returns it again.
        Err(Nix::ENOSYS | Nix::EPERM) => open_part_by_part(folder, path, purpose),
        opened => Ok(opened?),
    }
}

fn open_part_by_part(folder: BorrowedFd<'_>, path: &Path, purpose: OpenPurpose) -> Result<OwnedFd, Errno> {
    let device = fstat(folder)?.st_dev;
    let mut opened: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        if !matches!(part, Component::Normal(_) | Component::CurDir) {
            return Err(Nix::EXDEV.into());
        }
        let flags = match parts.peek() {
            Some(_) => OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            None => purpose.flags(),
        };
        let file = match &opened {
            Some(folder) => openat(folder, part.as_os_str(), flags, Mode::empty())?,
            None => openat(folder, part.as_os_str(), flags, Mode::empty())?,
        };
        if fstat(&file)?.st_dev != device {
            return Err(Nix::EXDEV.into());
        }
        opened = Some(file);
    }
    opened.ok_or(Nix::ENOENT.into())
}

impl OpenPurpose {
    fn flags(self) -> OFlag {
        // Without `O_NONBLOCK`, opening a pipe would wait for a writer. `O_PATH` opens nothing that could block, and the
        // kernel refuses other flags with it.
        let purpose = match self {
            Self::Content => OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY,
            Self::Entries => OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_DIRECTORY,
            Self::Status => OFlag::O_PATH,
        };
        purpose | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::SFlag;
    use nix::unistd::mkfifo;

    use super::*;

    type Opener = fn(BorrowedFd<'_>, &Path, OpenPurpose) -> Result<OwnedFd, Errno>;

    const OPENERS: [Opener; 2] = [open_beneath, open_part_by_part];
    const PURPOSES: [OpenPurpose; 3] = [OpenPurpose::Content, OpenPurpose::Entries, OpenPurpose::Status];

    /// The kind of what was opened, or the error.
    fn kind(opened: Result<OwnedFd, Errno>) -> Result<SFlag, Nix> {
        let opened = opened.map_err(|errno| Nix::from_raw(errno.0))?;
        let status = fstat(&opened).unwrap();
        Ok(SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT)
    }

    #[test]
    fn paths_are_opened_beneath_the_folder_only() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("in")).unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(root.join("in/file"), "file").unwrap();
        let odd = OsStr::from_bytes(b"\xff\n *");
        fs::write(root.join(odd), "odd").unwrap();
        symlink("in", root.join("link")).unwrap();
        symlink("file", root.join("in/link")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        // Opening it without care would wait for a writer.
        mkfifo(&root.join("pipe"), Mode::S_IRWXU).unwrap();
        let folder = File::open(&root).unwrap();

        let (file, dir, link, pipe) = (SFlag::S_IFREG, SFlag::S_IFDIR, SFlag::S_IFLNK, SFlag::S_IFIFO);
        for open in OPENERS {
            let check = |path: &OsStr, expected: [Option<SFlag>; 3]| {
                let opened = PURPOSES.map(|purpose| kind(open(folder.as_fd(), path.as_ref(), purpose)));
                assert_eq!(opened.map(Result::ok), expected, "{path:?} {opened:?}");
            };
            let none = [None; 3];
            check(OsStr::new("."), [Some(dir); 3]);
            check(OsStr::new("in"), [Some(dir); 3]);
            check(OsStr::new("in/file"), [Some(file), None, Some(file)]);
            check(odd, [Some(file), None, Some(file)]);
            check(OsStr::new("pipe"), [Some(pipe), None, Some(pipe)]);
            // A link is opened itself, and only to read its status.
            for path in ["link", "in/link", "out", "magic"] {
                check(OsStr::new(path), [None, None, Some(link)]);
            }
            for path in [
                "",
                "missing",
                "in/file/x",
                "link/file",
                "magic/etc/passwd",
                "..",
                "../secret",
                "in/../../secret",
                "/etc/passwd",
                "/",
                "a\0b",
            ] {
                check(OsStr::new(path), none);
            }
            check(OsStr::new(&"x/".repeat(3000)), none);
        }
    }

    #[test]
    fn other_file_systems_are_not_entered() {
        let root = File::open("/").unwrap();
        for open in OPENERS {
            for path in ["proc", "proc/self/status"] {
                for purpose in PURPOSES {
                    let opened = kind(open(root.as_fd(), path.as_ref(), purpose));
                    assert_eq!(opened, Err(Nix::EXDEV), "{path} {purpose:?}");
                }
            }
        }
    }
}
