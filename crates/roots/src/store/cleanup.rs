//! Finds files that nobody uses, under the lock of the folder, and removes them without it.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::RootName;
use uuid::Uuid;

use super::{
    CURRENT, NEW_LINK_PREFIX, RECORD, REMOVED_PREFIX, RootStore, RootStoreError, RootsFolderLock,
    WORK_PREFIX, io_error, names_in, read_current,
};

/// Folders of roots that nobody uses any more, to be removed when the lock of the folder is released.
#[derive(Debug, Default)]
pub(super) struct UnusedFolders(Vec<UnusedFolder>);

/// One folder that nobody uses any more, with its locks. While they are held, other commands leave the folder alone.
#[derive(Debug)]
struct UnusedFolder {
    path: PathBuf,
    _locks: Vec<File>,
}

impl UnusedFolders {
    pub(super) fn extend(&mut self, more: UnusedFolders) {
        self.0.extend(more.0);
    }

    /// Tries all, and returns the first error.
    pub(super) fn run(self) -> Result<(), RootStoreError> {
        let mut result = Ok(());
        for folder in self.0 {
            let removed = fs::remove_dir_all(&folder.path).map_err(io_error("remove", &folder.path));
            result = result.and(removed);
        }
        result
    }
}

impl RootStore {
    /// Takes every unused folder out of use. Names that cannot be of this store are left alone.
    pub(super) fn collect_unused(&self, _lock: &RootsFolderLock) -> Result<UnusedFolders, RootStoreError> {
        let mut unused = UnusedFolders::default();
        for entry in self.entries()? {
            let Some(name) = entry.to_str() else { continue };
            if name.starts_with(WORK_PREFIX) || name.starts_with(REMOVED_PREFIX) {
                unused.0.extend(self.take_leftover(name)?);
            } else if RootName::new(name).is_ok() {
                self.collect_generations(&self.folder.join(name), &mut unused)?;
            }
        }
        Ok(unused)
    }

    /// A folder that an interrupted command has left. A command that is at work has its lock.
    fn take_leftover(&self, name: &str) -> Result<Option<UnusedFolder>, RootStoreError> {
        let path = self.folder.join(name);
        let Some(lock) = try_lock(&path)? else {
            return Ok(None);
        };
        // Its name must be free for a new command at once.
        self.take_away(&path, vec![lock]).map(Some)
    }

    fn collect_generations(
        &self,
        root_folder: &Path,
        unused: &mut UnusedFolders,
    ) -> Result<(), RootStoreError> {
        let current = read_current(root_folder)?;
        let mut is_empty = true;
        for entry in names_in(root_folder)? {
            let path = root_folder.join(&entry);
            if Some(&path) == current.as_ref() || entry == OsStr::new(CURRENT) {
                is_empty = false;
            } else if entry
                .to_str()
                .is_some_and(|name| name.starts_with(NEW_LINK_PREFIX))
            {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
            } else if entry.to_str().is_some_and(|name| Uuid::try_parse(name).is_ok()) {
                let record = path.join(RECORD);
                match try_lock(&record)? {
                    Some(lock) => unused.0.push(self.take_away(&path, vec![lock])?),
                    // Without a record nobody can use it.
                    None if !record.exists() => unused.0.push(self.take_away(&path, Vec::new())?),
                    None => is_empty = false,
                }
            } else {
                // Not a file of this store.
                is_empty = false;
            }
        }
        match is_empty {
            // It may be a file, or gone.
            true if root_folder.is_dir() => {
                fs::remove_dir(root_folder).map_err(io_error("remove the folder", root_folder))
            }
            _ => Ok(()),
        }
    }

    /// Moves a folder to where no command looks for roots, with a lock of its own.
    fn take_away(&self, path: &Path, mut locks: Vec<File>) -> Result<UnusedFolder, RootStoreError> {
        let to = self
            .folder
            .join(format!("{REMOVED_PREFIX}{}", Uuid::now_v7().simple()));
        fs::rename(path, &to).map_err(io_error("move away", path))?;
        locks.extend(try_lock(&to)?);
        Ok(UnusedFolder {
            path: to,
            _locks: locks,
        })
    }
}

/// The exclusive lock of a file or folder, if nobody else has a lock on it.
fn try_lock(path: &Path) -> Result<Option<File>, RootStoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("open", path)(error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(io_error("lock", path)(error)),
    }
}
