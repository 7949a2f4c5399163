//! The outgoing folder: the contents of results that wait for their upload, each in a file with the name of its hash.
//!
//! A result holds a reference to each of its files ([`OutgoingFiles`]) until a judicator has acknowledged it. A file without
//! references is removed in the background, so the report loop never waits for the disk. Files are not synced: after a
//! power failure the next process verifies them before it uploads them.

mod write;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::BlobHash;
use rpc::BlobFileSource;
use tokio::sync::Notify;

pub(crate) use self::write::{AddFileError, FileCopier};
use crate::attempt_control::AttemptRevoked;

/// How long a slot waits for room while no file is removed.
const ROOM_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a slot waits for room at most for all files of an attempt, even if other files are removed meanwhile.
const MAX_ROOM_TIMEOUT: Duration = Duration::from_secs(600);
/// How often a waiting slot checks whether its attempt was revoked.
const REVOKE_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The executor's folder of files that wait for their upload, with a limit on their total size.
pub(crate) struct OutgoingFolder {
    folder: PathBuf,
    limit: u64,
    /// Held while files get or lose their final names, so that a removal does not hit a file that was just added. Locked
    /// before the table, and never by the report loop.
    files: Mutex<()>,
    /// Never held during disk operations.
    table: Mutex<OutgoingTable>,
    /// Signalled when there is more room, to the slots and to the report loop.
    freed: Condvar,
    room_freed: Notify,
    is_removing: AtomicBool,
    /// Makes the names of temporary files unique.
    temporary_files: AtomicU64,
}

/// The files of an [`OutgoingFolder`], in memory.
struct OutgoingTable {
    blobs: HashMap<BlobHash, OutgoingBlob>,
    /// The size of all files, with the room that slots have reserved.
    bytes: u64,
    /// Files whose last reference was dropped. They may have got another one since.
    unreferenced: Vec<BlobHash>,
    /// False until the spool has been read: a later record may name a file that has no reference yet.
    may_remove: bool,
    last_freed: Instant,
}

/// One file of an [`OutgoingFolder`].
#[derive(Clone, Copy)]
struct OutgoingBlob {
    size: u64,
    references: usize,
    /// False for a file of an earlier process until it was read: a power failure may have damaged it.
    is_verified: bool,
}

/// References to files of the [`OutgoingFolder`], which keep the files of one result until they are dropped.
pub(crate) struct OutgoingFiles {
    folder: Arc<OutgoingFolder>,
    hashes: BTreeSet<BlobHash>,
    /// How long the slot may still wait for room for further files of the result. Zero after a wait in vain.
    wait_left: Duration,
}

/// Room for one file in the [`OutgoingFolder`] that a slot has reserved. Dropping it releases the room.
pub(crate) struct OutgoingRoom<'a> {
    folder: &'a OutgoingFolder,
    bytes: u64,
}

/// The error of a slot that got no room in the [`OutgoingFolder`] in time.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl OutgoingFolder {
    /// Lists the files of an earlier process. They have no references until [`OutgoingFolder::reference`] is called, and no
    /// file is removed before [`OutgoingFolder::start_removals`].
    pub(crate) fn open(folder: PathBuf, limit: u64) -> io::Result<Arc<OutgoingFolder>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut blobs = HashMap::new();
        let mut bytes = 0;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let hash = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Ok(metadata) = entry.metadata().inspect_err(|error| {
                // Only the results that name it are lost.
                tracing::warn!(path = %entry.path().display(), %error, "could not read a file that waits for its upload");
            }) else {
                continue;
            };
            match hash {
                Some(hash) if metadata.is_file() => {
                    bytes += metadata.len();
                    let blob = OutgoingBlob {
                        size: metadata.len(),
                        references: 0,
                        is_verified: false,
                    };
                    blobs.insert(hash, blob);
                }
                // A temporary file. Anything else was not created by an executor.
                _ if metadata.is_file() => remove_file(&entry.path()),
                _ => {}
            }
        }
        let table = OutgoingTable {
            unreferenced: blobs.keys().copied().collect(),
            blobs,
            bytes,
            may_remove: false,
            last_freed: Instant::now(),
        };
        Ok(Arc::new(OutgoingFolder {
            folder,
            limit,
            files: Mutex::new(()),
            table: Mutex::new(table),
            freed: Condvar::new(),
            room_freed: Notify::new(),
            is_removing: AtomicBool::new(false),
            temporary_files: AtomicU64::new(0),
        }))
    }

    /// References to files that the folder already has. `None` if one of them is missing or has another size than is known.
    pub(crate) fn reference(self: &Arc<Self>, files: &[(BlobHash, Option<u64>)]) -> Option<OutgoingFiles> {
        let mut references = OutgoingFiles::new(self);
        let mut table = self.table();
        for (hash, size) in files {
            let has_size = |blob: &&mut OutgoingBlob| size.is_none_or(|size| blob.size == size);
            let blob = table.blobs.get_mut(hash).filter(has_size);
            let Some(blob) = blob else {
                drop(table);
                return None;
            };
            if references.hashes.insert(*hash) {
                blob.references += 1;
            }
        }
        drop(table);
        Some(references)
    }

    /// Waits for room for one of the files. All files of an attempt share one bound on the time, so that a full folder does
    /// not keep a slot busy: after a wait in vain, the rest gets only room that is there. `progress` is called while it
    /// waits; an error of it means that the attempt was revoked.
    pub(crate) fn reserve(
        &self,
        bytes: u64,
        files: &mut OutgoingFiles,
        progress: &dyn Fn() -> Result<(), AttemptRevoked>,
    ) -> Result<Result<OutgoingRoom<'_>, NoRoom>, AttemptRevoked> {
        if bytes > self.limit {
            return Ok(Err(NoRoom));
        }
        let begun = Instant::now();
        let mut table = self.table();
        // After a restart the folder may have more than its limit, and an empty file needs no room.
        while bytes > 0 && table.bytes.saturating_add(bytes) > self.limit {
            let last = table.last_freed.max(begun);
            let left = files.wait_left.saturating_sub(begun.elapsed());
            if last.elapsed() >= ROOM_TIMEOUT || left.is_zero() {
                files.wait_left = Duration::ZERO;
                return Ok(Err(NoRoom));
            }
            drop(table);
            progress()?;
            (table, _) = self
                .freed
                .wait_timeout(self.table(), REVOKE_CHECK_INTERVAL.min(left))
                .unwrap_or_else(PoisonError::into_inner);
        }
        table.bytes += bytes;
        drop(table);
        files.wait_left = files.wait_left.saturating_sub(begun.elapsed());
        Ok(Ok(OutgoingRoom { folder: self, bytes }))
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether there is room for this many bytes, or half of the folder is free: an executor with a small folder works, too.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.table().bytes.saturating_add(bytes.min(self.limit / 2)) <= self.limit
    }

    /// Returns when there may be more room than at the last call.
    pub(crate) async fn room_freed(&self) {
        self.room_freed.notified().await;
    }

    /// The file of a blob, if the folder has it.
    pub(crate) fn source(&self, hash: &BlobHash) -> Option<BlobFileSource> {
        let size = self.table().blobs.get(hash)?.size;
        Some(BlobFileSource {
            hash: *hash,
            size,
            path: self.path(hash),
        })
    }

    pub(crate) fn is_verified(&self, hash: &BlobHash) -> bool {
        self.table().blobs.get(hash).is_some_and(|blob| blob.is_verified)
    }

    /// Reads the file, and returns whether it has the content that its name says. A slot may replace a damaged or removed
    /// file meanwhile: then it stays verified, although this returns false or an error.
    pub(crate) fn verify(&self, hash: &BlobHash) -> io::Result<bool> {
        let path = self.path(hash);
        let inode = || fs::symlink_metadata(&path).map(|metadata| metadata.ino()).ok();
        let inode_before = inode();
        let is_valid = match File::open(&path).and_then(|file| BlobHash::of_reader(file, |_| ())) {
            Ok(found) => Ok(found == *hash),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        let _files = self.files();
        let is_replaced = inode() != inode_before;
        if let Some(blob) = self.table().blobs.get_mut(hash).filter(|_| !is_replaced) {
            blob.is_verified = matches!(is_valid, Ok(true));
        }
        is_valid
    }

    /// Removes the files without references from now on. Called when all results of an earlier process have theirs.
    pub(crate) fn start_removals(self: &Arc<Self>) {
        self.table().may_remove = true;
        self.remove_unreferenced_in_background();
    }

    /// At most one thread removes, however often this is called while the disk hangs.
    fn remove_unreferenced_in_background(self: &Arc<Self>) {
        let is_needed = self.table().has_removals();
        if !is_needed || self.is_removing.swap(true, Ordering::AcqRel) {
            return;
        }
        let folder = self.clone();
        let remove = move || {
            folder.remove_unreferenced();
            folder.is_removing.store(false, Ordering::Release);
            // A reference may have been dropped since.
            folder.remove_unreferenced_in_background();
        };
        let thread = std::thread::Builder::new().name("outgoing".into());
        if let Err(error) = thread.spawn(remove) {
            tracing::warn!(%error, "could not start a thread to remove uploaded files");
            self.is_removing.store(false, Ordering::Release);
        }
    }

    fn remove_unreferenced(&self) {
        loop {
            let _files = self.files();
            let mut table = self.table();
            let Some(hash) = table.unreferenced.pop() else {
                return;
            };
            if table.blobs.get(&hash).is_none_or(|blob| blob.references > 0) {
                continue;
            }
            let Some(blob) = table.blobs.remove(&hash) else {
                continue;
            };
            drop(table);
            remove_file(&self.path(&hash));
            self.release(blob.size);
        }
    }

    fn release(&self, bytes: u64) {
        let mut table = self.table();
        table.bytes = table.bytes.saturating_sub(bytes);
        table.last_freed = Instant::now();
        drop(table);
        self.freed.notify_all();
        self.room_freed.notify_one();
    }

    fn path(&self, hash: &BlobHash) -> PathBuf {
        self.folder.join(hash.to_string())
    }

    fn temporary_path(&self) -> PathBuf {
        let number = self.temporary_files.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("new-{number}"))
    }

    #[cfg(test)]
    pub(crate) fn has_references(&self, hash: &BlobHash) -> bool {
        self.table()
            .blobs
            .get(hash)
            .is_some_and(|blob| blob.references > 0)
    }

    #[cfg(test)]
    pub(crate) fn is_removing(&self) -> bool {
        self.is_removing.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.table().bytes
    }

    fn files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, OutgoingTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutgoingTable {
    fn has_removals(&self) -> bool {
        self.may_remove && !self.unreferenced.is_empty()
    }
}

impl OutgoingFiles {
    pub(crate) fn new(folder: &Arc<OutgoingFolder>) -> OutgoingFiles {
        OutgoingFiles {
            folder: folder.clone(),
            hashes: BTreeSet::new(),
            wait_left: MAX_ROOM_TIMEOUT,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    pub(crate) fn hashes(&self) -> &BTreeSet<BlobHash> {
        &self.hashes
    }
}

impl Drop for OutgoingFiles {
    fn drop(&mut self) {
        if self.hashes.is_empty() {
            return;
        }
        let mut table = self.folder.table();
        let OutgoingTable {
            blobs, unreferenced, ..
        } = &mut *table;
        for hash in &self.hashes {
            if let Some(blob) = blobs.get_mut(hash) {
                blob.references = blob.references.saturating_sub(1);
                if blob.references == 0 {
                    unreferenced.push(*hash);
                }
            }
        }
        drop(table);
        self.folder.remove_unreferenced_in_background();
    }
}

impl Drop for OutgoingRoom<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.folder.release(self.bytes);
        }
    }
}

fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "could not remove a file from the outgoing folder");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
