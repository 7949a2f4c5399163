//! Removes a folder with all that is in it, and can be stopped in between.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// How the removal of a folder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeRemoval {
    Removed,
    /// Some of its files are left.
    Stopped,
}

const FOLDER_FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Removes what it can, and returns the first error. No link is followed. Paths in a root may be longer than one call accepts,
/// so every call is relative to the descriptor of a folder.
pub(super) fn remove_tree(path: &Path, is_stopping: &dyn Fn() -> bool) -> io::Result<TreeRemoval> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = OwnedFd::from(File::open(parent)?);
    Ok(remove_folder(
        &parent,
        &CString::new(name.as_bytes())?,
        is_stopping,
    )?)
}

/// The depth of a root is bounded when it is unpacked.
fn remove_folder(
    parent: &OwnedFd,
    name: &CString,
    is_stopping: &dyn Fn() -> bool,
) -> nix::Result<TreeRemoval> {
    let folder = match openat(parent, name.as_c_str(), FOLDER_FLAGS, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(TreeRemoval::Removed),
        folder => folder?,
    };
    let mut first_error = None;
    for child in names_in(&folder)? {
        if is_stopping() {
            return Ok(TreeRemoval::Stopped);
        }
        let removed = match unlinkat(&folder, child.as_c_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(TreeRemoval::Removed),
            // What Linux says of a folder.
            Err(Errno::EISDIR) => remove_folder(&folder, &child, is_stopping),
            Err(error) => Err(error),
        };
        match removed {
            Ok(TreeRemoval::Removed) => {}
            Ok(TreeRemoval::Stopped) => return Ok(TreeRemoval::Stopped),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => unlinkat(parent, name.as_c_str(), UnlinkatFlags::RemoveDir).map(|()| TreeRemoval::Removed),
    }
}

fn names_in(folder: &OwnedFd) -> nix::Result<Vec<CString>> {
    let folder = folder.try_clone().map_err(|_| Errno::EMFILE)?;
    let mut names = Vec::new();
    for entry in Dir::from_fd(folder)?.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
