//! Opens files beneath a workspace without following links.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use sandbox::{OpenPurpose, Warden, WardenError, open_beneath};

/// A task's workspace, opened to read what its commands have left there.
pub(crate) struct WorkspaceFolder<'a> {
    folder: File,
    /// The warden that can open what this process may not, if commands run in cells: their files may belong to another user,
    /// and the warden may read all of them.
    warden: Option<&'a mut Warden>,
}

impl<'a> WorkspaceFolder<'a> {
    pub(crate) fn on_disk(folder: File) -> WorkspaceFolder<'a> {
        WorkspaceFolder { folder, warden: None }
    }

    pub(crate) fn in_cell(folder: File, warden: &'a mut Warden) -> WorkspaceFolder<'a> {
        WorkspaceFolder {
            folder,
            warden: Some(warden),
        }
    }

    /// Opens a file or folder by its path in the workspace; the empty path is the workspace itself. Fails if a part of the path
    /// is a link or on another file system. The inner error is that of the file.
    pub(crate) fn open(
        &mut self,
        path: &[u8],
        purpose: OpenPurpose,
    ) -> Result<nix::Result<File>, WardenError> {
        let path = if path.is_empty() { b"." } else { path };
        let path = Path::new(OsStr::from_bytes(path));
        let opened = open_beneath(self.folder.as_fd(), path, purpose)
            .map(File::from)
            .map_err(|errno| Errno::from_raw(errno.0));
        // An executor of root never needs its warden here, and a request takes many times as long.
        match (opened, &mut self.warden) {
            (Err(Errno::EACCES | Errno::EPERM), Some(warden)) => {
                let opened = warden.open_in_workspace(path, purpose)?;
                Ok(opened.map_err(|errno| Errno::from_raw(errno.0)))
            }
            (opened, _) => Ok(opened),
        }
    }
}
