//! Opens files beneath a workspace without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fstat};

/// A task's workspace, opened to read files beneath it.
pub(super) struct WorkspaceFolder {
    folder: File,
    /// Whether the kernel has openat2. Kernels before 5.6 and old seccomp profiles of containers do not.
    has_openat2: AtomicBool,
}

impl WorkspaceFolder {
    pub(super) fn new(folder: File) -> WorkspaceFolder {
        WorkspaceFolder {
            folder,
            has_openat2: AtomicBool::new(true),
        }
    }

    /// Opens a file or folder by its path in the workspace; the empty path is the workspace itself. Fails if a part of the path
    /// is a link or on another file system.
    pub(super) fn open(&self, path: &[u8], flags: OFlag) -> nix::Result<File> {
        let path = if path.is_empty() { b"." } else { path };
        let path = Path::new(OsStr::from_bytes(path));
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        if self.has_openat2.load(Ordering::Relaxed) {
            let resolve = ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_XDEV;
            let how = OpenHow::new().flags(flags).resolve(resolve);
            match openat2(&self.folder, path, how) {
                Err(Errno::ENOSYS | Errno::EPERM) => self.has_openat2.store(false, Ordering::Relaxed),
                opened => return opened.map(File::from),
            }
        }
        self.open_part_by_part(path, flags)
    }

    fn open_part_by_part(&self, path: &Path, flags: OFlag) -> nix::Result<File> {
        let device = fstat(&self.folder)?.st_dev;
        let mut opened: Option<File> = None;
        let mut parts = path.iter().peekable();
        while let Some(part) = parts.next() {
            let flags = match parts.peek() {
                Some(_) => OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
                None => flags,
            };
            let folder = opened.as_ref().unwrap_or(&self.folder);
            let file = File::from(openat(folder, part, flags, Mode::empty())?);
            if fstat(&file)?.st_dev != device {
                return Err(Errno::EXDEV);
            }
            opened = Some(file);
        }
        opened.ok_or(Errno::ENOENT)
    }

    #[cfg(test)]
    pub(super) fn without_openat2(folder: File) -> WorkspaceFolder {
        WorkspaceFolder {
            folder,
            has_openat2: AtomicBool::new(false),
        }
    }
}
