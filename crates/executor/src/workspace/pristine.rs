//! An empty folder that a task may do anything to, and that is as it was before the next one gets it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(super) struct Pristine {
    path: PathBuf,
    mark: Mark,
}

/// Every change to a folder itself (its rights, its owner, its attributes, what it lists) moves the time of its
/// last change.
#[derive(PartialEq)]
pub(super) struct Mark {
    inode: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Pristine {
    /// The umask may take rights away; the mark is of what is there.
    pub(super) fn make(path: PathBuf) -> io::Result<Pristine> {
        DirBuilder::new().mode(0o755).create(&path)?;
        let mark = Mark::of(&path)?;
        Ok(Pristine { path, mark })
    }

    pub(super) fn restore(&mut self, progress: &dyn Fn()) -> io::Result<()> {
        if self.is_untouched() {
            return Ok(());
        }
        super::remove::remove(&self.path, progress)?;
        *self = Pristine::make(std::mem::take(&mut self.path))?;
        Ok(())
    }

    /// The mark alone would not do: times have steps, and two changes may fall on the same one.
    fn is_untouched(&self) -> bool {
        let same = Mark::of(&self.path).is_ok_and(|mark| mark == self.mark);
        same && fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }
}

impl Mark {
    pub(super) fn of(path: &Path) -> io::Result<Mark> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Mark {
            inode: metadata.ino(),
            mode: metadata.mode(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
