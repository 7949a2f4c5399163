//! Blobs that callers are uploading to this judicator, and what interrupted uploads have left.
//!
//! The bytes of a blob that an executor uploads are written to `HASH.part` in the store's folder for incoming blobs. An
//! upload that ends early leaves the file, also when the judicator is restarted, and a later one continues it.

mod blob_reception;
mod incoming_file;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use model::BlobHash;
use rpc::CallError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

pub(crate) use blob_reception::BlobReception;
pub(crate) use incoming_file::{IncomingFile, write_error};

/// An interrupted upload that nobody continues is removed after this time.
const KEEP_FOR: Duration = Duration::from_secs(24 * 3600);
/// How many interrupted uploads are kept, and how many bytes of them. The oldest go first.
const MAX_KEPT: usize = 64;
const MAX_KEPT_BYTES: u64 = 4 << 30;
/// An upload without progress for this long gives way to a caller that wants to continue it: the connection of the first is
/// probably dead, and this judicator has not noticed yet.
const YIELD_AFTER: Duration = Duration::from_secs(5);
/// How long the upload that gives way may take to write its last bytes.
const YIELD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an upload whose connection was closed may take to notice it and to write what it has received.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The uploads of blobs to this judicator, of which each blob has at most one that can be continued.
pub(crate) struct PartialUploads {
    folder: PathBuf,
    uploads: Arc<OngoingUploads>,
}

/// The blobs that are being uploaded to `HASH.part` files of a judicator now.
#[derive(Default)]
struct OngoingUploads {
    by_hash: Mutex<HashMap<BlobHash, Arc<OngoingUpload>>>,
    /// An upload was interrupted since the bounds were last applied.
    interrupted: AtomicBool,
}

/// An upload to a `HASH.part` file that is under way.
struct OngoingUpload {
    progress: Mutex<Instant>,
    yields: CancellationToken,
    ended: CancellationToken,
}

/// The right to write the `HASH.part` file of a blob. Dropping it gives the right back.
struct UploadClaim {
    hash: BlobHash,
    uploads: Arc<OngoingUploads>,
    upload: Arc<OngoingUpload>,
    /// Whether the file is left behind when the claim ends.
    leaves_file: bool,
}

impl PartialUploads {
    pub(crate) fn new(folder: PathBuf) -> PartialUploads {
        let uploads = OngoingUploads {
            interrupted: AtomicBool::new(true),
            ..OngoingUploads::default()
        };
        PartialUploads {
            folder,
            uploads: Arc::new(uploads),
        }
    }

    /// How many bytes of the blob an interrupted upload has left. 0 while another upload makes progress. The answer takes a
    /// moment if an upload is about to end: otherwise a caller that connects again at once would begin from 0.
    pub(crate) async fn kept_bytes(&self, hash: BlobHash) -> u64 {
        let ongoing = self.uploads.lock().get(&hash).cloned();
        if let Some(ongoing) = ongoing
            && !ongoing.ends_or_yields().await
        {
            return 0;
        }
        let size = tokio::fs::metadata(self.partial_path(hash)).await;
        size.map_or(0, |metadata| metadata.len())
    }

    /// Begins to receive a blob, or continues with the byte at `offset`. Without an offset, nothing is kept if it is
    /// interrupted.
    pub(crate) async fn begin(
        &self,
        hash: BlobHash,
        offset: Option<u64>,
    ) -> Result<BlobReception, CallError> {
        let claim = offset.and_then(|_| self.uploads.claim(hash));
        let offset = offset.unwrap_or(0);
        let (folder, path) = (self.folder.clone(), self.partial_path(hash));
        let uploads = self.uploads.clone();
        let open = move || {
            if uploads.interrupted.swap(false, Ordering::SeqCst) {
                uploads.remove_excess(&folder);
            }
            match claim {
                Some(claim) => BlobReception::open_partial(hash, offset, path, claim),
                None => BlobReception::open_temporary(hash, offset, &folder),
            }
        };
        in_thread(open).await?
    }

    /// Removes what an interrupted upload of a blob has left that the store has got meanwhile.
    pub(crate) async fn remove_kept(&self, hash: BlobHash) {
        let Some(mut claim) = self.uploads.claim(hash) else {
            return;
        };
        let path = self.partial_path(hash);
        let remove = move || {
            incoming_file::remove(&path);
            claim.leaves_file = false;
            drop(claim);
        };
        // Fails only when the process stops; then the file is removed later.
        let _ = in_thread(remove).await;
    }

    /// Removes what interrupted uploads have left and nobody has continued for a day.
    pub(crate) async fn remove_old(&self) {
        let (uploads, folder) = (self.uploads.clone(), self.folder.clone());
        if let Err(error) = in_thread(move || uploads.remove_excess(&folder)).await {
            tracing::warn!(%error, "could not remove old parts of blobs");
        }
    }

    fn partial_path(&self, hash: BlobHash) -> PathBuf {
        self.folder.join(format!("{hash}.part"))
    }
}

impl OngoingUploads {
    /// `None` if another upload has the claim.
    fn claim(self: &Arc<Self>, hash: BlobHash) -> Option<UploadClaim> {
        let mut by_hash = self.lock();
        if by_hash.contains_key(&hash) {
            return None;
        }
        let upload = Arc::new(OngoingUpload {
            progress: Mutex::new(Instant::now()),
            yields: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        by_hash.insert(hash, upload.clone());
        Some(UploadClaim {
            hash,
            uploads: self.clone(),
            upload,
            leaves_file: true,
        })
    }

    /// Applies the bounds to what interrupted uploads have left.
    fn remove_excess(self: &Arc<Self>, folder: &Path) {
        let kept = match list_partial_files(folder) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "could not list the parts of blobs");
                return;
            }
        };
        for (hash, path) in excess(kept, SystemTime::now()) {
            // While this claim is held, no upload begins to continue the file.
            if let Some(mut claim) = self.claim(hash) {
                incoming_file::remove(&path);
                claim.leaves_file = false;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BlobHash, Arc<OngoingUpload>>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OngoingUpload {
    /// Waits until the upload has ended, and ends it if it makes no progress. False if it goes on.
    async fn ends_or_yields(&self) -> bool {
        let goes_on_after = Instant::now() + END_TIMEOUT / 2;
        if timeout(END_TIMEOUT, self.ended.cancelled()).await.is_ok() {
            return true;
        }
        loop {
            let progress = self.last_progress();
            if progress > goes_on_after {
                return false;
            }
            if timeout_at(progress + YIELD_AFTER, self.ended.cancelled())
                .await
                .is_ok()
            {
                return true;
            }
            if self.last_progress() == progress {
                self.yields.cancel();
                return timeout(YIELD_TIMEOUT, self.ended.cancelled()).await.is_ok();
            }
        }
    }

    fn last_progress(&self) -> Instant {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Drop for UploadClaim {
    fn drop(&mut self) {
        self.uploads.lock().remove(&self.hash);
        if self.leaves_file {
            self.uploads.interrupted.store(true, Ordering::SeqCst);
        }
        self.upload.ended.cancel();
    }
}

/// What an interrupted upload has left: the file, its size, and when it was last written.
#[derive(Clone, Debug)]
struct PartialFile {
    hash: BlobHash,
    path: PathBuf,
    size: u64,
    modified: SystemTime,
}

fn list_partial_files(folder: &Path) -> io::Result<Vec<PartialFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let hash = name.to_str().and_then(|name| name.strip_suffix(".part"));
        let Some(hash) = hash.and_then(|hash| hash.parse().ok()) else {
            continue;
        };
        // Another upload may just have completed it.
        if let Ok(metadata) = entry.metadata() {
            files.push(PartialFile {
                hash,
                path: entry.path(),
                size: metadata.len(),
                modified: metadata.modified()?,
            });
        }
    }
    Ok(files)
}

/// The interrupted uploads to remove: the ones that are too old, and the oldest beyond the bounds.
fn excess(mut kept: Vec<PartialFile>, now: SystemTime) -> Vec<(BlobHash, PathBuf)> {
    kept.sort_unstable_by_key(|file| std::cmp::Reverse(file.modified));
    let (mut count, mut bytes) = (0, 0_u64);
    kept.retain(|file| {
        count += 1;
        bytes = bytes.saturating_add(file.size);
        let age = now.duration_since(file.modified).unwrap_or_default();
        age > KEEP_FOR || count > MAX_KEPT || bytes > MAX_KEPT_BYTES
    });
    kept.into_iter().map(|file| (file.hash, file.path)).collect()
}

async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CallError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| CallError::Unavailable("the judicator is stopping".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_parts_go_first_and_the_bounds_hold() {
        let now = SystemTime::now();
        let file = |number: u8, size: u64, age: Duration| PartialFile {
            hash: BlobHash([number; 32]),
            path: PathBuf::from(number.to_string()),
            size,
            modified: now - age,
        };
        let check = |kept: &[PartialFile], expected: &[u8]| {
            let mut removed: Vec<_> = excess(kept.to_vec(), now)
                .into_iter()
                .map(|(hash, _)| hash.0[0])
                .collect();
            removed.sort_unstable();
            assert_eq!(removed, expected);
        };
        let (hour, day) = (Duration::from_secs(3600), KEEP_FOR);
        check(
            &[file(1, 1, hour), file(2, 1, day + hour), file(3, 1, hour * 23)],
            &[2],
        );
        check(
            &[
                file(1, MAX_KEPT_BYTES / 2, hour),
                file(2, 1, hour * 3),
                file(3, MAX_KEPT_BYTES / 2, hour * 2),
            ],
            &[2],
        );
        let many: Vec<_> = (0..MAX_KEPT as u8 + 2)
            .map(|number| file(number, 1, hour * number.into()))
            .collect();
        // Those above 24 hours are too old anyway.
        let expected: Vec<_> = (25..MAX_KEPT as u8 + 2).collect();
        check(&many, &expected);
        let many: Vec<_> = (0..MAX_KEPT as u8 + 2)
            .map(|number| file(number, 1, Duration::from_secs(number.into())))
            .collect();
        check(&many, &[MAX_KEPT as u8, MAX_KEPT as u8 + 1]);
    }
}
