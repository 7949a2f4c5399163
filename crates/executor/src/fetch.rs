//! Downloads the blobs of a task before the task is queued for a slot.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use model::{Assignment, AttemptEnd, BlobHash, BlobHasher, CompletedAttempt, retry_delay};
use rpc::{CallError, Calls};
use thiserror::Error;
use tokio::io::AsyncWriteExt;

use crate::attempt_control::AttemptControl;
use crate::cache::BlobPins;
use crate::slot_pool::{AttemptEndCause, PreparedAttempt, SlotEvent, SlotPool};

/// How often a download is tried while the judicator is unavailable.
const MAX_TRIES: u32 = 8;
/// How often a download is tried when it stalls; the retry may go to another judicator.
const MAX_STALLS: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The part of the executor that downloads an attempt's blobs into the cache and then queues the attempt for a slot.
pub(crate) struct BlobFetcher {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) slot_pool: Arc<SlotPool>,
    /// A lock for each blob that is being downloaded, so that attempts which share a blob download it once. It holds the
    /// reason if the download has stalled.
    pub(crate) in_progress: Mutex<HashMap<BlobHash, Arc<tokio::sync::Mutex<Option<String>>>>>,
    /// How long a download may stand still.
    pub(crate) stall: Duration,
}

impl BlobFetcher {
    /// Queues the attempt when all blobs are in the cache. Without blobs it does so before it returns.
    pub(crate) fn fetch_and_enqueue(self: &Arc<Self>, assignment: Assignment, control: Arc<AttemptControl>) {
        let Assignment {
            attempt_id,
            spec,
            platform_losses,
        } = assignment;
        let blobs = spec.blobs();
        let mut pins = self.slot_pool.cache.pins();
        if blobs.is_empty() {
            return self.slot_pool.enqueue(PreparedAttempt {
                attempt_id,
                spec,
                platform_losses,
                control,
                _pins: pins,
            });
        }
        let fetcher = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the download; a panic fails the attempt"
        )]
        tokio::spawn(async move {
            // Without this a panic would leave the attempt in the table for ever.
            let fetching = AssertUnwindSafe(fetcher.fetch_all(blobs, &mut pins, &control)).catch_unwind();
            let fetched = fetching.await;
            let panicked = |_| {
                let why = "the executor panicked while it fetched a file of the task";
                Err(FetchFailure {
                    why: why.into(),
                    detail: "see the message of the panic".into(),
                    cause: AttemptEndCause::ExecutorFailure,
                })
            };
            if let Err(FetchFailure { why, detail, cause }) = fetched.unwrap_or_else(panicked) {
                // A revoked attempt has no end to report.
                let cause = match control.is_revoked() {
                    true => AttemptEndCause::NoResult,
                    false => {
                        tracing::warn!(task = %attempt_id.task, detail, "could not fetch a blob of a task");
                        let end = match cause {
                            // No executor can run the task.
                            AttemptEndCause::BlobLost => AttemptEnd::Broken(why),
                            _ => AttemptEnd::PlatformFailure(why),
                        };
                        let pause = retry_delay(&end, platform_losses);
                        let complete = CompletedAttempt {
                            attempt_id,
                            form: control.form,
                            end,
                        };
                        fetcher.slot_pool.spool_end(complete, None, pause);
                        cause
                    }
                };
                drop(pins);
                fetcher
                    .slot_pool
                    .send_event(SlotEvent::AttemptEnded(attempt_id, cause));
                return fetcher.slot_pool.cache.evict_in_background();
            }
            fetcher.slot_pool.enqueue(PreparedAttempt {
                attempt_id,
                spec,
                platform_losses,
                control,
                _pins: pins,
            });
        });
    }

    async fn fetch_all(
        &self,
        blobs: impl IntoIterator<Item = BlobHash>,
        pins: &mut BlobPins,
        control: &AttemptControl,
    ) -> Result<(), FetchFailure> {
        for hash in blobs {
            self.fetch(hash, pins, control).await?;
        }
        Ok(())
    }

    async fn fetch(
        &self,
        hash: BlobHash,
        pins: &mut BlobPins,
        control: &AttemptControl,
    ) -> Result<(), FetchFailure> {
        let download = {
            let mut in_progress = self.in_progress.lock().unwrap_or_else(PoisonError::into_inner);
            in_progress.retain(|_, download| Arc::strong_count(download) > 1);
            in_progress.entry(hash).or_default().clone()
        };
        let mut stall_reason = match download.try_lock() {
            Ok(stall_reason) => stall_reason,
            Err(_) => {
                let stall_reason = download.lock().await;
                // A stalled download fails all attempts that waited for it; otherwise each would wait in turn.
                if let Some(why) = &*stall_reason {
                    return Err(FetchFailure {
                        why: why.clone(),
                        detail: format!("the download of blob {hash} by another task has stalled"),
                        cause: AttemptEndCause::ExecutorFailure,
                    });
                }
                stall_reason
            }
        };
        let fetched = self.fetch_without_sharing(hash, pins, control).await;
        *stall_reason = match &fetched {
            Err(error @ FetchError::Stalled(_)) => Some(error.for_user()),
            _ => None,
        };
        fetched.map_err(|error| FetchFailure {
            why: error.for_user(),
            detail: format!("blob {hash}: {error}"),
            cause: error.cause(),
        })
    }

    async fn fetch_without_sharing(
        &self,
        hash: BlobHash,
        pins: &mut BlobPins,
        control: &AttemptControl,
    ) -> Result<(), FetchError> {
        if self.pin_cached(hash, pins).await? {
            return Ok(());
        }
        let mut pause = FIRST_PAUSE;
        let mut stalls = 0;
        for _ in 0..MAX_TRIES {
            let downloaded = self.download(hash, pins).await;
            if downloaded.is_err() {
                // A partial file does not count towards the cache limit, and may have filled the disk.
                let part = self.slot_pool.cache.partial_path(&hash);
                let _ = tokio::time::timeout(self.stall, tokio::fs::remove_file(part)).await;
            }
            match downloaded {
                Err(FetchError::Stalled(what)) => {
                    stalls += 1;
                    tracing::warn!(%hash, what, stall = ?self.stall, "blob download stalled");
                    if stalls == MAX_STALLS || control.is_revoked() {
                        return Err(FetchError::Stalled(what));
                    }
                }
                Err(FetchError::Call(error)) if error.is_transient() && !control.is_revoked() => {
                    tracing::debug!(%hash, %error, "blob download failed; retrying");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                other => return other,
            }
        }
        Err(CallError::Unavailable("no judicator answered".into()).into())
    }

    /// Whether the cache has the blob. The first use in this process reads the whole file.
    async fn pin_cached(&self, hash: BlobHash, pins: &mut BlobPins) -> Result<bool, FetchError> {
        let cache = self.slot_pool.cache.clone();
        let progress = Arc::new(AtomicU64::new(0));
        let counted = progress.clone();
        let mut pinning = tokio::task::spawn_blocking(move || {
            let mut pins = cache.pins();
            (cache.pin_if_valid(hash, &mut pins, &counted), pins)
        });
        let mut seen = 0;
        loop {
            match tokio::time::timeout(self.stall, &mut pinning).await {
                Ok(Ok((found, taken))) => {
                    pins.join(taken);
                    return Ok(found);
                }
                Ok(Err(error)) => return Err(std::io::Error::other(error).into()),
                Err(_) => {
                    let read = progress.load(Ordering::Relaxed);
                    if read == seen {
                        return Err(FetchError::Stalled("no data read from the disk"));
                    }
                    seen = read;
                }
            }
        }
    }

    async fn download(&self, hash: BlobHash, pins: &mut BlobPins) -> Result<(), FetchError> {
        let mut bytes = self
            .with_stall_timeout("no judicator answered", self.calls.get_blob(hash))
            .await??;
        let path = self.slot_pool.cache.partial_path(&hash);
        let disk_stalled = "no data written to the disk";
        let mut file = self
            .with_stall_timeout(disk_stalled, tokio::fs::File::create(&path))
            .await??;
        let mut hasher = BlobHasher::default();
        let mut size = 0;
        while let Some(part) = self.with_stall_timeout("no data received", bytes.next()).await? {
            let part = part?;
            size += part.len() as u64;
            hasher.update(&part);
            self.with_stall_timeout(disk_stalled, file.write_all(&part))
                .await??;
        }
        self.with_stall_timeout(disk_stalled, file.flush()).await??;
        let actual = hasher.finish();
        if actual != hash {
            // The transfer was cut short: the store checks the hash of what it sends.
            return Err(CallError::Unavailable(format!("blob {hash} arrived with hash {actual}")).into());
        }
        let cache = self.slot_pool.cache.clone();
        let inserting = tokio::task::spawn_blocking(move || {
            let mut pins = cache.pins();
            cache.insert(hash, size, &mut pins).map(|()| pins)
        });
        let inserted = self.with_stall_timeout(disk_stalled, inserting).await?;
        pins.join(inserted.map_err(std::io::Error::other)??);
        Ok(())
    }

    /// Awaits one step of a download; `what` is the reason if it stalls.
    async fn with_stall_timeout<T>(
        &self,
        what: &'static str,
        step: impl Future<Output = T>,
    ) -> Result<T, FetchError> {
        let waited = tokio::time::timeout(self.stall, step).await;
        waited.map_err(|_| FetchError::Stalled(what))
    }
}

/// Why the executor could not fetch the blobs of an attempt, and how that ends the attempt.
struct FetchFailure {
    /// For the user of the task.
    why: String,
    /// For the log of the executor: names the blob.
    detail: String,
    cause: AttemptEndCause,
}

/// Why the executor could not download one blob from a judicator into its blob cache.
#[derive(Debug, Error)]
enum FetchError {
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("could not write it to the cache: {0}")]
    Store(#[from] std::io::Error),
    /// No progress for longer than the stall timeout.
    #[error("{0} for too long (executor.stall)")]
    Stalled(&'static str),
}

impl FetchError {
    /// A blob that the store has lost is not a failure of this executor, which can still run other tasks.
    fn cause(&self) -> AttemptEndCause {
        match self {
            FetchError::Call(CallError::NoBlob(_) | CallError::DamagedBlob(_)) => AttemptEndCause::BlobLost,
            FetchError::Call(_) | FetchError::Store(_) | FetchError::Stalled(_) => {
                AttemptEndCause::ExecutorFailure
            }
        }
    }

    /// The reason as the user of the task reads it. It names no hash, and repeats no text of a judicator, which may name one:
    /// the blob may be an answer of somebody else's problem, and whoever knows its hash can download it.
    fn for_user(&self) -> String {
        let why = match self {
            FetchError::Call(CallError::NoBlob(_)) => "it does not exist in the store; put it again",
            FetchError::Call(CallError::DamagedBlob(_)) => "it is damaged in the store; put it again",
            FetchError::Call(CallError::Unreadable(_)) => "the store cannot read it",
            FetchError::Call(error) if error.is_transient() => "no judicator could send it",
            FetchError::Call(_) => "the judicator failed to send it",
            FetchError::Store(error) => {
                return format!("could not write a file of the task to the executor's cache: {error}");
            }
            FetchError::Stalled(_) => return format!("could not get a file of the task: {self}"),
        };
        format!("could not get a file of the task: {why}")
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The user of the task may be kept from seeing the cases of a problem, whose blobs need only their hashes.
    #[test]
    fn users_read_why_a_file_is_missing_and_never_its_hash() {
        let hash = BlobHash([0xab; 32]);
        let check = |error: FetchError, expected: &str| {
            let text = error.for_user();
            assert!(
                text.contains("a file of the task") && text.contains(expected),
                "{text}"
            );
            assert!(!text.contains("abab") && !text.contains("blob"), "{text}");
        };
        check(CallError::NoBlob(hash).into(), "does not exist");
        check(CallError::DamagedBlob(hash).into(), "is damaged");
        check(
            CallError::Unreadable(format!("blob {hash}: a bad sector")).into(),
            "cannot read it",
        );
        check(
            CallError::Unavailable(format!("blob {hash} arrived incomplete")).into(),
            "no judicator could send it",
        );
        check(
            CallError::Internal(format!("blob {hash}")).into(),
            "failed to send it",
        );
        check(
            io::Error::from(io::ErrorKind::StorageFull).into(),
            "no storage space",
        );
        check(
            FetchError::Stalled("no data received"),
            "no data received for too long",
        );
    }
}
