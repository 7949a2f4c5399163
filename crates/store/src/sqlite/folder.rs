//! Where the store lies on disk, and the lock that keeps a second process out of it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::BlobHash;

use crate::StoreError;
use crate::set_aside::SetAside;

/// The places in the data folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// Rows of its database that cannot be read.
    set_aside: Arc<SetAside>,
}

/// A process that was just starting another when it was killed leaves the lock to that one, until it is a program of
/// its own. That must not keep the next life from starting, which has nothing else to do until then.
const PATIENCE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(20);

/// Held for as long as the store is open. The kernel lets go of it when the process dies, however it dies.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Folder {
    /// Without looking at what is there.
    pub(super) fn at(root: &Path) -> Folder {
        Folder {
            root: root.to_path_buf(),
            set_aside: Arc::default(),
        }
    }

    /// Makes what is missing, locks the folder, and empties `incoming`: it holds only blobs that were still
    /// on their way in when an earlier process ended, and nobody will send the rest of those.
    pub(super) fn open(root: &Path) -> Result<(Folder, Lock), StoreError> {
        let folder = Folder::at(root);
        fs::create_dir_all(root).map_err(io_error("create the folder", root))?;
        let lock = folder.lock()?;
        let incoming = folder.incoming();
        match fs::remove_dir_all(&incoming) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("empty the folder", &incoming)(error));
            }
            _ => {}
        }
        for path in [incoming, folder.blobs()] {
            fs::create_dir_all(&path).map_err(io_error("create the folder", &path))?;
        }
        folder.check_database()?;
        Ok((folder, lock))
    }

    fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.root.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error("open", &path))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => std::thread::sleep(RETRY),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::InUse {
                        path: self.root.clone(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
            }
        }
    }

    /// SQLite takes an empty database file for a new one and deletes the log beside it. But a log that has
    /// content was written for a database that had some: that is damage, and the log may be all that is left.
    fn check_database(&self) -> Result<(), StoreError> {
        let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let log = self.root.join("tasks.db-wal");
        if length(&self.database()) == 0 && length(&log) > 0 {
            return Err(StoreError::Corrupt {
                path: self.root.clone(),
                detail: "tasks.db is missing or empty, but its log tasks.db-wal is not".into(),
            });
        }
        Ok(())
    }

    /// What the database is made of, when it is open.
    pub(super) fn open_files(&self) -> Result<OpenFiles, StoreError> {
        let files = [self.database(), self.root.join("tasks.db-wal")];
        let files = files.map(|path| Ok((identity(&path).map_err(io_error("look at", &path))?, path)));
        let files = files.into_iter().collect::<Result<_, _>>()?;
        Ok(OpenFiles {
            files,
            blobs: self.blobs(),
        })
    }

    pub(super) fn set_aside(&self) -> &SetAside {
        &self.set_aside
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn database(&self) -> PathBuf {
        self.root.join("tasks.db")
    }

    pub(super) fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    /// Blobs are spread over folders by the start of their hash, so that no folder grows too large to list.
    pub(super) fn blob(&self, hash: BlobHash) -> PathBuf {
        let name = hash.to_string();
        self.shelf(hash.0[0]).join(&name[2..])
    }

    pub(super) fn shelf(&self, first_byte: u8) -> PathBuf {
        self.blobs().join(format!("{first_byte:02x}"))
    }
}

/// Files that the store has open. One that is removed goes on taking writes, which nobody ever finds again.
#[derive(Clone, Debug)]
pub(super) struct OpenFiles {
    files: Vec<(Identity, PathBuf)>,
    blobs: PathBuf,
}

/// The device and the inode, which no other file has while this one is open.
type Identity = (u64, u64);

fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

impl OpenFiles {
    /// Whether all is still in its place.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let gone = |path: &Path| StoreError::Gone {
            path: path.to_path_buf(),
        };
        for (opened, path) in &self.files {
            if identity(path).ok() != Some(*opened) {
                return Err(gone(path));
            }
        }
        match self.blobs.is_dir() {
            true => Ok(()),
            false => Err(gone(&self.blobs)),
        }
    }
}

/// Makes entries that were created in or renamed into a folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("sync the folder", path))
}

pub(super) fn io_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
        _ => StoreError::Io { step, path, source },
    }
}
