//! An empty folder that is given to one task after another, and restored in between.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A workspace folder that is reused for one task after another; each finds it empty and with the same permissions.
pub(super) struct ReusableFolder {
    path: PathBuf,
    fingerprint: FolderFingerprint,
}

/// Inode, mode and change time of a workspace folder, by which the executor tells whether a task has changed it. They
/// change with its permissions, owner, attributes or entries.
#[derive(PartialEq)]
pub(super) struct FolderFingerprint {
    inode: u64,
    mode: u32,
    changed: (i64, i64),
}

impl ReusableFolder {
    /// The fingerprint is read after the creation, because the umask may have changed the mode.
    pub(super) fn create(path: PathBuf) -> io::Result<ReusableFolder> {
        DirBuilder::new().mode(0o755).create(&path)?;
        let fingerprint = FolderFingerprint::of(&path)?;
        Ok(ReusableFolder { path, fingerprint })
    }

    /// Removes and creates the folder again if the task has changed it.
    pub(super) fn restore(&mut self, progress: &dyn Fn()) -> io::Result<()> {
        if self.is_unchanged() {
            return Ok(());
        }
        super::remove::remove(&self.path, progress)?;
        *self = ReusableFolder::create(std::mem::take(&mut self.path))?;
        Ok(())
    }

    /// The fingerprint alone is not enough: timestamps are coarse, and two changes can have the same one.
    fn is_unchanged(&self) -> bool {
        let same = FolderFingerprint::of(&self.path).is_ok_and(|fingerprint| fingerprint == self.fingerprint);
        same && fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }
}

impl FolderFingerprint {
    pub(super) fn of(path: &Path) -> io::Result<FolderFingerprint> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(FolderFingerprint {
            inode: metadata.ino(),
            mode: metadata.mode(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
