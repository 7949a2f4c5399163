//! Blobs kept for later tasks, up to so many bytes, the longest unused going first.
//!
//! A blob that a task here needs is pinned and stays. Before a use its file is checked against its name, unless it has
//! been checked within the last hour and nobody has touched it since.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::BlobHash;
use sha2::{Digest, Sha256};

/// A disk may lose a bit that nobody has touched; a blob that many tasks use is not read in full for each of them.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

pub(crate) struct Cache {
    folder: PathBuf,
    limit: u64,
    /// Held while files are put or removed, so that no removal hits a file that was just put. Before the shelf's lock.
    files: Mutex<()>,
    /// Nobody waits for the disk while holding this one.
    shelf: Mutex<Shelf>,
    making_room: AtomicBool,
}

#[derive(Default)]
struct Shelf {
    blobs: HashMap<BlobHash, Blob>,
    bytes: u64,
    /// Counts uses, as a clock for which came last.
    uses: u64,
}

struct Blob {
    size: u64,
    last_use: u64,
    pins: usize,
    /// None: it is from an earlier life, which may have ended in the middle of a write.
    checked: Option<Check>,
}

/// When a file was found to be whole, and what says that it is still the same.
#[derive(Clone, Copy)]
struct Check {
    at: Instant,
    stamp: Stamp,
}

/// Whoever writes to a file, or puts another in its place, changes this.
#[derive(Clone, Copy, PartialEq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Keeps its blobs on the shelf until dropped.
pub(crate) struct Pins {
    cache: Arc<Cache>,
    hashes: Vec<BlobHash>,
}

impl Cache {
    pub(crate) fn open(folder: PathBuf, limit: u64) -> io::Result<Arc<Cache>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut shelf = Shelf::default();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<BlobHash>().ok())
            {
                Some(hash) => {
                    let size = entry.metadata()?.len();
                    shelf.bytes += size;
                    shelf.blobs.insert(
                        hash,
                        Blob {
                            size,
                            last_use: 0,
                            pins: 0,
                            checked: None,
                        },
                    );
                }
                // Half of a blob that was on its way.
                None => fs::remove_file(entry.path())?,
            }
        }
        let cache = Cache {
            folder,
            limit,
            files: Mutex::new(()),
            shelf: Mutex::new(shelf),
            making_room: AtomicBool::new(false),
        };
        cache.make_room();
        Ok(Arc::new(cache))
    }

    pub(crate) fn path(&self, hash: &BlobHash) -> PathBuf {
        self.folder.join(hash.to_string())
    }

    /// Where a blob is to be written before `keep`.
    pub(crate) fn incoming(&self, hash: &BlobHash) -> PathBuf {
        self.folder.join(format!("{hash}.part"))
    }

    /// Pins the blob if it is here and whole. Reads all of it where that is not known, and counts the bytes.
    pub(crate) fn take(self: &Arc<Self>, hash: BlobHash, pins: &mut Pins, progress: &AtomicU64) -> bool {
        let checked = match self.lock().use_once(&hash) {
            Some(checked) => checked,
            None => return false,
        };
        // Even one that was checked may be gone or changed: others can reach the folder.
        match check(&self.path(&hash), &hash, checked, progress) {
            Ok(Some(check)) => {
                if let Some(blob) = self.lock().blobs.get_mut(&hash) {
                    blob.checked = Some(check);
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

    /// Puts the finished file at `incoming` on the shelf, pinned.
    pub(crate) fn keep(self: &Arc<Self>, hash: BlobHash, size: u64, pins: &mut Pins) -> io::Result<()> {
        {
            let _files = self.files();
            fs::rename(self.incoming(&hash), self.path(&hash))?;
            let check = Check {
                at: Instant::now(),
                stamp: Stamp::of(&self.path(&hash))?,
            };
            let mut shelf = self.lock();
            shelf.uses += 1;
            let last_use = shelf.uses;
            let blob = Blob {
                size,
                last_use,
                pins: 1,
                checked: Some(check),
            };
            if let Some(old) = shelf.blobs.insert(hash, blob) {
                shelf.bytes -= old.size;
            }
            shelf.bytes += size;
        }
        pins.hashes.push(hash);
        self.make_room();
        Ok(())
    }

    pub(crate) fn pins(self: &Arc<Self>) -> Pins {
        Pins {
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

    /// Removes what is unpinned and too much, in a thread of its own: callers need not wait for the disk.
    pub(crate) fn make_room_soon(self: &Arc<Self>) {
        if !self.is_too_full() || self.making_room.swap(true, Ordering::Relaxed) {
            return;
        }
        let cache = self.clone();
        let making = move || {
            cache.make_room();
            cache.making_room.store(false, Ordering::Relaxed);
        };
        let thread = std::thread::Builder::new().name("cache".into());
        if let Err(error) = thread.spawn(making) {
            tracing::warn!(%error, "could not start a thread to shrink the cache");
            self.making_room.store(false, Ordering::Relaxed);
        }
    }

    fn is_too_full(&self) -> bool {
        self.lock().bytes > self.limit
    }

    /// Removes what is unpinned until the rest is within the limit.
    fn make_room(&self) {
        if !self.is_too_full() {
            return;
        }
        let _files = self.files();
        let removed = self.lock().remove_until(self.limit);
        for hash in removed {
            remove_file(&self.path(&hash));
        }
    }

    fn files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Pins a blob that is there, and says what is known of it.
    fn use_once(&mut self, hash: &BlobHash) -> Option<Option<Check>> {
        self.uses += 1;
        let blob = self.blobs.get_mut(hash)?;
        blob.last_use = self.uses;
        blob.pins += 1;
        Some(blob.checked)
    }

    fn remove(&mut self, hash: &BlobHash) -> bool {
        let removed = self.blobs.remove(hash);
        self.bytes -= removed.as_ref().map_or(0, |blob| blob.size);
        removed.is_some()
    }

    fn remove_until(&mut self, limit: u64) -> Vec<BlobHash> {
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

impl Pins {
    pub(crate) fn join(&mut self, mut other: Pins) {
        self.hashes.append(&mut other.hashes);
    }
}

/// Only lets go: the report loop drops pins too, and must not wait for the disk. Others make room afterwards.
impl Drop for Pins {
    fn drop(&mut self) {
        let mut shelf = self.cache.lock();
        for hash in &self.hashes {
            if let Some(blob) = shelf.blobs.get_mut(hash) {
                blob.pins = blob.pins.saturating_sub(1);
            }
        }
    }
}

/// What is known of the file after this: nothing, if it is not the blob's.
fn check(
    path: &Path,
    hash: &BlobHash,
    known: Option<Check>,
    progress: &AtomicU64,
) -> io::Result<Option<Check>> {
    let (at, stamp) = (Instant::now(), Stamp::of(path)?);
    let still = |check: &Check| check.stamp == stamp && at - check.at < CHECK_EVERY;
    if let Some(known) = known.filter(still) {
        return Ok(Some(known));
    }
    let whole = hash_of(path, progress)? == *hash;
    Ok(whole.then_some(Check { at, stamp }))
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        let metadata = fs::metadata(path)?;
        Ok(Stamp {
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

fn hash_of(path: &Path, progress: &AtomicU64) -> io::Result<BlobHash> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut part = vec![0; 64 << 10];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(BlobHash(hasher.finalize().into())),
            length => {
                hasher.update(&part[..length]);
                progress.fetch_add(length as u64, Ordering::Relaxed);
            }
        }
    }
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

    fn put(cache: &Arc<Cache>, bytes: &[u8], pins: &mut Pins) -> BlobHash {
        let hash = BlobHash(Sha256::digest(bytes).into());
        fs::write(cache.incoming(&hash), bytes).unwrap();
        cache.keep(hash, bytes.len() as u64, pins).unwrap();
        hash
    }

    #[test]
    fn the_longest_unused_goes_first_and_the_pinned_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().to_path_buf(), 20).unwrap();
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
        cache.make_room();
        let mut pins = cache.pins();
        assert!(cache.take(first, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.take(second, &mut pins, &AtomicU64::new(0)));
    }

    #[test]
    fn what_an_earlier_life_left_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let sound = BlobHash(Sha256::digest(b"sound").into());
        let cut = BlobHash(Sha256::digest(b"cut off").into());
        fs::write(folder.path().join(sound.to_string()), b"sound").unwrap();
        fs::write(folder.path().join(cut.to_string()), b"cut").unwrap();
        fs::write(folder.path().join("x.part"), b"half").unwrap();
        let cache = Cache::open(folder.path().to_path_buf(), 1000).unwrap();
        let mut pins = cache.pins();
        assert!(cache.take(sound, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.take(cut, &mut pins, &AtomicU64::new(0)));
        assert!(!cache.path(&cut).exists());
        assert!(!folder.path().join("x.part").exists());
        fs::remove_file(cache.path(&sound)).unwrap();
        assert!(
            !cache.take(sound, &mut pins, &AtomicU64::new(0)),
            "checked, but gone"
        );
    }

    #[test]
    fn a_blob_that_was_changed_after_its_first_use_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().to_path_buf(), 1000).unwrap();
        let mut pins = cache.pins();
        let hash = put(&cache, b"whole", &mut pins);
        let mut take = || {
            let progress = AtomicU64::new(0);
            (
                cache.take(hash, &mut pins, &progress),
                progress.load(Ordering::Relaxed),
            )
        };
        assert_eq!(take(), (true, 0), "it was checked when it came");
        // The clock of a file system may tick as seldom as this.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(cache.path(&hash), b"wh0le").unwrap();
        assert_eq!(take(), (false, 5));
        assert!(!cache.path(&hash).exists());
    }
}
