//! The layout of the store's folder, and the lock that keeps a second process out of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::BlobHash;

use crate::StoreError;
use crate::incoming_folder;
use crate::newer_forms::NewerForms;
use crate::tools_cache::ToolsCache;
use crate::unreadable_rows::UnreadableRows;

/// The folder of a SQLite store: the paths of its database and blob files.
#[derive(Clone, Debug)]
pub(super) struct StoreFolder {
    root: PathBuf,
    /// Unreadable rows of the database in this folder.
    unreadable_rows: Arc<UnreadableRows>,
    /// Unknown forms of tasks in this database.
    newer_forms: Arc<NewerForms>,
    tools_cache: Arc<ToolsCache>,
    /// How many puts of each blob have begun and have no row yet.
    blobs_being_put: Arc<Mutex<HashMap<BlobHash, usize>>>,
}

/// Keeps the file of a blob from being removed while the SQLite store puts it: its row does not exist yet.
#[derive(Debug)]
pub(super) struct PutGuard {
    folder: StoreFolder,
    hash: BlobHash,
}

impl Drop for PutGuard {
    fn drop(&mut self) {
        let mut being_put = self.folder.blobs_being_put();
        if let Entry::Occupied(mut entry) = being_put.entry(self.hash) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// A killed process may leave a child between fork and exec, which still has the lock's file open. The next process
/// must start all the same, so it waits for that child.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The exclusive lock on a SQLite store's folder, held while the store is open. The kernel releases it when the process
/// dies.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl StoreFolder {
    /// Does not access the disk.
    pub(super) fn at(root: &Path) -> StoreFolder {
        StoreFolder {
            root: root.to_path_buf(),
            unreadable_rows: Arc::default(),
            newer_forms: Arc::default(),
            tools_cache: Arc::default(),
            blobs_being_put: Arc::default(),
        }
    }

    /// Creates what is missing, locks the folder, and removes what an earlier process has left in `incoming`.
    pub(super) fn open(root: &Path) -> Result<(StoreFolder, FolderLock), StoreError> {
        let folder = StoreFolder::at(root);
        fs::create_dir_all(root).map_err(io_error("create the folder", root))?;
        let lock = folder.lock()?;
        let incoming = folder.incoming_folder();
        incoming_folder::remove_leftovers(&incoming).map_err(io_error("empty the folder", &incoming))?;
        for path in [incoming, folder.blobs()] {
            fs::create_dir_all(&path).map_err(io_error("create the folder", &path))?;
        }
        // They all exist from the beginning, so that a put syncs only its own one.
        for first_byte in 0..=u8::MAX {
            let path = folder.blob_subfolder(first_byte);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io_error("create the folder", &path)(error));
                }
                _ => {}
            }
        }
        sync_folder(&folder.blobs())?;
        folder.check_database()?;
        Ok((folder, lock))
    }

    fn lock(&self) -> Result<FolderLock, StoreError> {
        let path = self.root.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error("open", &path))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FolderLock { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse {
                        path: self.root.clone(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
            }
        }
    }

    /// SQLite treats an empty database file as a new database and deletes its WAL. But a WAL with content belongs to a
    /// database that had content: this is damage, and the WAL may be all that is left.
    fn check_database(&self) -> Result<(), StoreError> {
        let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let wal = self.root.join("tasks.db-wal");
        if length(&self.database()) == 0 && length(&wal) > 0 {
            return Err(StoreError::Corrupt {
                path: self.root.clone(),
                detail: "tasks.db is missing or empty, but its WAL tasks.db-wal is not".into(),
            });
        }
        Ok(())
    }

    /// The files of the open database, to detect later that one was removed or replaced.
    pub(super) fn open_files(&self) -> Result<OpenDatabaseFiles, StoreError> {
        let files = [self.database(), self.root.join("tasks.db-wal")];
        let files = files.map(|path| {
            let identity = FileIdentity::of_path(&path).map_err(io_error("inspect", &path))?;
            Ok((identity, path))
        });
        let files = files.into_iter().collect::<Result<_, _>>()?;
        Ok(OpenDatabaseFiles {
            files,
            blobs: self.blobs(),
        })
    }

    pub(super) fn unreadable_rows(&self) -> &UnreadableRows {
        &self.unreadable_rows
    }

    pub(super) fn newer_forms(&self) -> &NewerForms {
        &self.newer_forms
    }

    pub(super) fn tools_cache(&self) -> &ToolsCache {
        &self.tools_cache
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn database(&self) -> PathBuf {
        self.root.join("tasks.db")
    }

    pub(super) fn incoming_folder(&self) -> PathBuf {
        self.root.join("incoming")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// The file of a blob. Blobs are spread over subfolders by the first byte of their hash, so that no folder grows
    /// too large to list.
    pub(super) fn blob(&self, hash: BlobHash) -> PathBuf {
        let name = hash.to_string();
        self.blob_subfolder(hash.0[0]).join(&name[2..])
    }

    /// Call it before the file of the blob is moved to its place.
    pub(super) fn begin_put(&self, hash: BlobHash) -> PutGuard {
        *self.blobs_being_put().entry(hash).or_default() += 1;
        PutGuard {
            folder: self.clone(),
            hash,
        }
    }

    pub(super) fn is_being_put(&self, hash: BlobHash) -> bool {
        self.blobs_being_put().contains_key(&hash)
    }

    /// Removes the file of a blob that has no row, unless a put of the blob has begun meanwhile.
    pub(super) fn remove_blob_file(&self, hash: BlobHash) {
        // The lock is held until the file is removed, so that no put begins in between.
        let being_put = self.blobs_being_put();
        if being_put.contains_key(&hash) {
            return;
        }
        let path = self.blob(hash);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "could not remove the file of a blob");
            }
            _ => {}
        }
    }

    fn blobs_being_put(&self) -> MutexGuard<'_, HashMap<BlobHash, usize>> {
        let being_put = self.blobs_being_put.lock();
        being_put.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn blob_subfolder(&self, first_byte: u8) -> PathBuf {
        self.blobs().join(format!("{first_byte:02x}"))
    }
}

/// The identities of a SQLite store's database files when they were opened, to detect that they were replaced. An
/// unlinked file still accepts writes, which are lost when the process ends.
#[derive(Clone, Debug)]
pub(super) struct OpenDatabaseFiles {
    files: Vec<(FileIdentity, PathBuf)>,
    blobs: PathBuf,
}

impl OpenDatabaseFiles {
    /// Fails if a file was removed or replaced.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let replaced = |path: &Path| StoreError::FilesReplaced {
            path: path.to_path_buf(),
        };
        for (opened, path) in &self.files {
            if FileIdentity::of_path(path).ok() != Some(*opened) {
                return Err(replaced(path));
            }
        }
        match self.blobs.is_dir() {
            true => Ok(()),
            false => Err(replaced(&self.blobs)),
        }
    }
}

/// The device and inode numbers by which the SQLite store recognizes a file. They stay the same when the file is
/// renamed, and no other file has them while this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(super) fn of(metadata: &Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    pub(super) fn of_path(path: &Path) -> io::Result<FileIdentity> {
        fs::metadata(path).map(|metadata| FileIdentity::of(&metadata))
    }
}

/// Makes entries that were created in or renamed into the folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("sync the folder", path))
}

pub(super) fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
        _ => StoreError::Io { step, path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_blob_that_is_being_put_is_not_removed() {
        let root = tempfile::tempdir().unwrap();
        let (folder, _lock) = StoreFolder::open(root.path()).unwrap();
        let hash = BlobHash::of(b"x");
        let (first, second) = (folder.begin_put(hash), folder.begin_put(hash));
        fs::write(folder.blob(hash), b"x").unwrap();
        for guard in [first, second] {
            folder.remove_blob_file(hash);
            assert!(folder.is_being_put(hash) && folder.blob(hash).exists());
            drop(guard);
        }
        assert!(!folder.is_being_put(hash));
        folder.remove_blob_file(hash);
        assert!(!folder.blob(hash).exists());
        // It is no error that the file is gone already.
        folder.remove_blob_file(hash);
    }
}
