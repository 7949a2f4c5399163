//! A root that tasks can use, and the lock that keeps its files.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::{BlobHash, RootName};

use super::{RECORD, RootRecord, RootStoreError, TREE};

/// A root that tasks can use: the current generation of an installed one, or a folder that the operator manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRoot {
    pub name: RootName,
    /// Identifies the content ([`RootRecord::sha256`]). None for a folder that the operator manages.
    pub sha256: Option<BlobHash>,
    /// The folder with the root file system. Each generation has another folder, so its path tells generations apart.
    pub folder: PathBuf,
    /// None for a folder that the operator manages.
    pub record: Option<RootRecord>,
    /// The generation that the folder is in. None for a folder elsewhere.
    generation: Option<PathBuf>,
}

/// Keeps the files of one generation of a root while a process uses them, also after the root is replaced or removed.
///
/// The lock belongs to the open file, so a process that inherits the descriptor shares it: the files are kept until the
/// last of them has closed it.
#[derive(Debug)]
pub struct RootHold {
    lock: Option<File>,
}

impl InstalledRoot {
    pub(super) fn configured(name: RootName, folder: PathBuf) -> InstalledRoot {
        InstalledRoot {
            name,
            sha256: None,
            folder,
            record: None,
            generation: None,
        }
    }

    /// A folder that the operator has named, and that is in a generation of the store.
    pub(super) fn in_generation(name: RootName, folder: PathBuf, generation: PathBuf) -> InstalledRoot {
        InstalledRoot {
            generation: Some(generation),
            ..InstalledRoot::configured(name, folder)
        }
    }

    pub(super) fn read(name: &RootName, generation: &Path) -> Result<InstalledRoot, RootStoreError> {
        let record = RootRecord::read(name, &generation.join(RECORD))?;
        Ok(InstalledRoot {
            name: name.clone(),
            sha256: Some(record.sha256),
            folder: generation.join(TREE),
            record: Some(record),
            generation: Some(generation.to_path_buf()),
        })
    }

    /// The folder of the generation of an installed root; `None` for a folder that the operator has named.
    pub(crate) fn generation(&self) -> Option<&Path> {
        self.record.as_ref().and(self.generation.as_deref())
    }

    /// Keeps the files of this generation while the hold exists. Fails with `NotFound` if they have been removed, or are
    /// being removed: then look the root up again.
    pub fn hold(&self) -> io::Result<RootHold> {
        match &self.generation {
            Some(generation) => RootHold::of_generation(generation),
            None => Ok(RootHold { lock: None }),
        }
    }
}

impl RootHold {
    pub(super) fn of_generation(generation: &Path) -> io::Result<RootHold> {
        let path = generation.join(RECORD);
        let lock = File::open(&path)?;
        match lock.try_lock_shared() {
            Ok(()) => {}
            // Only a process that removes the generation has the exclusive lock.
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::NotFound.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The generation may have been moved away between the two calls above.
        let (held, named) = (lock.metadata()?, fs::symlink_metadata(&path)?);
        match (held.dev(), held.ino()) == (named.dev(), named.ino()) {
            true => Ok(RootHold { lock: Some(lock) }),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// The descriptor that has the lock, to pass it to another process. `None` for a folder that the operator manages.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.lock.as_ref().map(File::as_fd)
    }
}
