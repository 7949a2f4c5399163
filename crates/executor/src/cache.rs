//! A cache of blobs on disk with a size limit and least-recently-used eviction.
//!
//! A blob that an attempt needs is pinned and not evicted. Before each use its file is verified against its hash, unless it
//! was verified within the last hour and has not changed since.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::BlobHash;

/// An unchanged file is verified again after this time, because a disk can corrupt data.
const VERIFY_INTERVAL: Duration = Duration::from_secs(3600);

/// The executor's cache of blobs on disk, with a size limit and least-recently-used eviction.
pub(crate) struct BlobCache {
    folder: PathBuf,
    limit: u64,
    /// Held while files are added or removed, so that an eviction does not remove a file that was just added. Locked before
    /// the index.
    files: Mutex<()>,
    /// Never held during disk operations.
    index: Mutex<CacheIndex>,
    is_evicting: AtomicBool,
}

/// The in-memory index of a [`BlobCache`]: which blobs it holds, their sizes and their uses.
#[derive(Default)]
struct CacheIndex {
    blobs: HashMap<BlobHash, CachedBlob>,
    bytes: u64,
    /// A logical clock: counts the uses of all blobs.
    uses: u64,
}

/// One blob in the index of a [`BlobCache`].
struct CachedBlob {
    size: u64,
    last_use: u64,
    pins: usize,
    /// `None`: an earlier process wrote the file, and may have been killed during the write.
    verified: Option<Verification>,
}

/// When the blob cache last checked a file against its hash, and the file's fingerprint at that time.
#[derive(Clone, Copy)]
struct Verification {
    at: Instant,
    fingerprint: FileFingerprint,
}

/// Inode, size and change time of a file in the blob cache: they change when it is written or replaced.
#[derive(Clone, Copy, PartialEq)]
struct FileFingerprint {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// A guard that protects an attempt's blobs from eviction from the [`BlobCache`] until it is dropped.
pub(crate) struct BlobPins {
    cache: Arc<BlobCache>,
    hashes: Vec<BlobHash>,
}

impl BlobCache {
    pub(crate) fn open(folder: PathBuf, limit: u64) -> io::Result<Arc<BlobCache>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut index = CacheIndex::default();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<BlobHash>().ok())
            {
                Some(hash) => {
                    let size = entry.metadata()?.len();
                    index.bytes += size;
                    index.blobs.insert(
                        hash,
                        CachedBlob {
                            size,
                            last_use: 0,
                            pins: 0,
                            verified: None,
                        },
                    );
                }
                // A partial download.
                None => fs::remove_file(entry.path())?,
            }
        }
        let cache = BlobCache {
            folder,
            limit,
            files: Mutex::new(()),
            index: Mutex::new(index),
            is_evicting: AtomicBool::new(false),
        };
        cache.evict();
        Ok(Arc::new(cache))
    }

    pub(crate) fn path(&self, hash: &BlobHash) -> PathBuf {
        self.folder.join(hash.to_string())
    }

    /// Opens the file of a pinned blob. The error names neither the hash nor the path: it becomes a message for the user of a
    /// task, and whoever knows the hash of a hidden case can download it. So the hash is only in the log.
    pub(crate) fn open_blob(&self, hash: &BlobHash) -> io::Result<File> {
        let opened = File::open(self.path(hash));
        opened.inspect_err(|error| tracing::warn!(%hash, %error, "could not open a cached blob"))
    }

    /// The size of a pinned blob. The error is like that of [`BlobCache::open_blob`].
    pub(crate) fn size_of(&self, hash: &BlobHash) -> io::Result<u64> {
        let status = fs::metadata(self.path(hash));
        let size = status.map(|status| status.len());
        size.inspect_err(|error| tracing::warn!(%hash, %error, "could not read the size of a cached blob"))
    }

    /// Where a blob is downloaded to before `insert`.
    pub(crate) fn partial_path(&self, hash: &BlobHash) -> PathBuf {
        self.folder.join(format!("{hash}.part"))
    }

    /// Pins the blob if the cache has it and its file is valid. `progress` counts the bytes that were read to verify it.
    pub(crate) fn pin_if_valid(
        self: &Arc<Self>,
        hash: BlobHash,
        pins: &mut BlobPins,
        progress: &AtomicU64,
    ) -> bool {
        let verified = match self.lock().pin(&hash) {
            Some(verified) => verified,
            None => return false,
        };
        // The file may have been removed or changed by another process, even if it was verified before.
        match verify_file(&self.path(&hash), &hash, verified, progress) {
            Ok(Some(verification)) => {
                if let Some(blob) = self.lock().blobs.get_mut(&hash) {
                    blob.verified = Some(verification);
                }
                pins.hashes.push(hash);
                true
            }
            Ok(None) | Err(_) => {
                self.discard(&hash);
                false
            }
        }
    }

    /// Moves the finished file at `partial_path` into the cache and pins it.
    pub(crate) fn insert(self: &Arc<Self>, hash: BlobHash, size: u64, pins: &mut BlobPins) -> io::Result<()> {
        {
            let _files = self.files();
            fs::rename(self.partial_path(&hash), self.path(&hash))?;
            let check = Verification {
                at: Instant::now(),
                fingerprint: FileFingerprint::of(&self.path(&hash))?,
            };
            let mut index = self.lock();
            index.uses += 1;
            let last_use = index.uses;
            let blob = CachedBlob {
                size,
                last_use,
                pins: 1,
                verified: Some(check),
            };
            if let Some(old) = index.blobs.insert(hash, blob) {
                index.bytes -= old.size;
            }
            index.bytes += size;
        }
        pins.hashes.push(hash);
        self.evict();
        Ok(())
    }

    pub(crate) fn pins(self: &Arc<Self>) -> BlobPins {
        BlobPins {
            cache: self.clone(),
            hashes: Vec::new(),
        }
    }

    fn discard(&self, hash: &BlobHash) {
        let _files = self.files();
        let removed = self.lock().remove(hash);
        if removed {
            remove_file(&self.path(hash));
        }
    }

    /// Evicts in a new thread, so that callers do not wait for the disk.
    pub(crate) fn evict_in_background(self: &Arc<Self>) {
        if !self.is_over_limit() || self.is_evicting.swap(true, Ordering::Relaxed) {
            return;
        }
        let cache = self.clone();
        let evict = move || {
            cache.evict();
            cache.is_evicting.store(false, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("cache".into());
        if let Err(error) = thread.spawn(evict) {
            tracing::warn!(%error, "could not start a thread to evict blobs from the cache");
            self.is_evicting.store(false, Ordering::Relaxed);
        }
    }

    fn is_over_limit(&self) -> bool {
        self.lock().bytes > self.limit
    }

    /// Removes unpinned blobs, the least recently used first, until the cache is within its limit.
    fn evict(&self) {
        if !self.is_over_limit() {
            return;
        }
        let _files = self.files();
        let removed = self.lock().evict_down_to(self.limit);
        for hash in removed {
            remove_file(&self.path(&hash));
        }
    }

    fn files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, CacheIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheIndex {
    /// Pins a blob; the inner value is its last verification. `None` if the cache does not have it.
    fn pin(&mut self, hash: &BlobHash) -> Option<Option<Verification>> {
        self.uses += 1;
        let blob = self.blobs.get_mut(hash)?;
        blob.last_use = self.uses;
        blob.pins += 1;
        Some(blob.verified)
    }

    fn remove(&mut self, hash: &BlobHash) -> bool {
        let removed = self.blobs.remove(hash);
        self.bytes -= removed.as_ref().map_or(0, |blob| blob.size);
        removed.is_some()
    }

    fn evict_down_to(&mut self, limit: u64) -> Vec<BlobHash> {
        let mut removed = Vec::new();
        while self.bytes > limit {
            let unpinned = self.blobs.iter().filter(|(_, blob)| blob.pins == 0);
            let oldest = unpinned.min_by_key(|(_, blob)| blob.last_use);
            let Some(hash) = oldest.map(|(hash, _)| *hash) else {
                break;
            };
            self.remove(&hash);
            removed.push(hash);
        }
        removed
    }
}

impl BlobPins {
    pub(crate) fn join(&mut self, mut other: BlobPins) {
        self.hashes.append(&mut other.hashes);
    }
}

/// Does not evict: the report loop drops pins, and must not wait for the disk.
impl Drop for BlobPins {
    fn drop(&mut self) {
        let mut index = self.cache.lock();
        for hash in &self.hashes {
            if let Some(blob) = index.blobs.get_mut(hash) {
                blob.pins = blob.pins.saturating_sub(1);
            }
        }
    }
}

/// Verifies the file against its hash unless `known` still holds. `None` if the content is wrong.
fn verify_file(
    path: &Path,
    hash: &BlobHash,
    known: Option<Verification>,
    progress: &AtomicU64,
) -> io::Result<Option<Verification>> {
    let (at, fingerprint) = (Instant::now(), FileFingerprint::of(path)?);
    let still_holds =
        |known: &Verification| known.fingerprint == fingerprint && at - known.at < VERIFY_INTERVAL;
    if let Some(known) = known.filter(still_holds) {
        return Ok(Some(known));
    }
    let whole = hash_file(path, progress)? == *hash;
    Ok(whole.then_some(Verification { at, fingerprint }))
}

impl FileFingerprint {
    fn of(path: &Path) -> io::Result<FileFingerprint> {
        let metadata = fs::metadata(path)?;
        Ok(FileFingerprint {
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

fn hash_file(path: &Path, progress: &AtomicU64) -> io::Result<BlobHash> {
    BlobHash::of_reader(File::open(path)?, |length| {
        progress.fetch_add(length as u64, Ordering::Relaxed);
    })
}

fn remove_file(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "could not remove a cached blob");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &Arc<BlobCache>, bytes: &[u8], pins: &mut BlobPins) -> BlobHash {
        let hash = BlobHash::of(bytes);
        fs::write(cache.partial_path(&hash), bytes).unwrap();
        cache.insert(hash, bytes.len() as u64, pins).unwrap();
        hash
    }

    #[test]
    fn eviction_removes_the_least_recently_used_unpinned_blob() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path().to_path_buf(), 20).unwrap();
        let mut pinned = cache.pins();
        let first = put(&cache, b"0123456789", &mut pinned);
        let mut loose = cache.pins();
        let second = put(&cache, b"abcdefghij", &mut loose);
        drop(loose);
        let mut loose = cache.pins();
        let third = put(&cache, b"ABCDEFGHIJ", &mut loose);
        let here = |hash| cache.path(hash).exists();
        assert!(here(&first) && !here(&second) && here(&third));
        drop(pinned);
        drop(loose);
        cache.evict();
        let mut pins = cache.pins();
        assert!(cache.pin_if_valid(first, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.pin_if_valid(second, &mut pins, &AtomicU64::new(0)));
    }

    #[test]
    fn files_of_an_earlier_process_are_verified() {
        let folder = tempfile::tempdir().unwrap();
        let sound = BlobHash::of(b"sound");
        let cut = BlobHash::of(b"cut off");
        fs::write(folder.path().join(sound.to_string()), b"sound").unwrap();
        fs::write(folder.path().join(cut.to_string()), b"cut").unwrap();
        fs::write(folder.path().join("x.part"), b"half").unwrap();
        let cache = BlobCache::open(folder.path().to_path_buf(), 1000).unwrap();
        let mut pins = cache.pins();
        assert!(cache.pin_if_valid(sound, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.pin_if_valid(cut, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.path(&cut).exists());
        assert!(!folder.path().join("x.part").exists());
        fs::remove_file(cache.path(&sound)).unwrap();
        assert!(
            !cache.pin_if_valid(sound, &mut pins, &AtomicU64::new(0)),
            "verified, but gone"
        );
    }

    #[test]
    fn a_file_that_changed_after_its_first_use_is_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = BlobCache::open(folder.path().to_path_buf(), 1000).unwrap();
        let mut pins = cache.pins();
        let hash = put(&cache, b"whole", &mut pins);
        let mut take = || {
            let progress = AtomicU64::new(0);
            (
                cache.pin_if_valid(hash, &mut pins, &progress),
                progress.load(Ordering::Relaxed),
            )
        };
        assert_eq!(take(), (true, 0), "it was verified when it was inserted");
        // File systems can have timestamps this coarse.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(cache.path(&hash), b"wh0le").unwrap();
        assert_eq!(take(), (false, 5));
        assert!(!cache.path(&hash).exists());
    }
}
