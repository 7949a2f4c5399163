//! Brings a task's blobs here before it is passed to a slot.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use model::{Assignment, BlobHash, Complete, End, pause_after};
use rpc::{CallError, Calls};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::cache::Pins;
use crate::control::Control;
use crate::work::{Bench, Ending, Event, Job};

/// How often a blob is asked for while the judicator does not answer.
const TRIES: u32 = 8;
/// How often it is asked for when its bytes do not come: another judicator may do better.
const STALLS: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Fetcher {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) bench: Arc<Bench>,
    /// One at a time for each blob: tasks that share one wait for the first, and learn if it did not come.
    pub(crate) underway: Mutex<HashMap<BlobHash, Arc<tokio::sync::Mutex<Option<String>>>>>,
    /// For how long a transfer may stand still.
    pub(crate) stall: Duration,
}

impl Fetcher {
    /// Passes the task on when all is here. Without blobs that is at once, in the caller's own time.
    pub(crate) fn prepare(self: &Arc<Self>, assignment: Assignment, control: Arc<Control>) {
        let Assignment {
            handout,
            spec,
            platform_losses,
        } = assignment;
        let blobs = spec.blobs();
        let mut pins = self.bench.cache.pins();
        if blobs.is_empty() {
            return self.bench.push(Job {
                handout,
                spec,
                platform_losses,
                control,
                _pins: pins,
            });
        }
        let fetcher = self.clone();
        tokio::spawn(async move {
            // An attempt whose blobs nobody brings any more would be held for ever.
            let bringing = AssertUnwindSafe(fetcher.bring_all(blobs, &mut pins, &control)).catch_unwind();
            let brought = bringing.await;
            let panicked = |_| {
                Err(NotBrought::ours(
                    "the executor panicked while it fetched a blob".into(),
                ))
            };
            if let Err(NotBrought { why, ending }) = brought.unwrap_or_else(panicked) {
                // A task that was taken away meanwhile needs no verdict.
                let ending = match control.is_withdrawn() {
                    true => Ending::Withdrawn,
                    false => {
                        let end = match ending {
                            // No executor can run it.
                            Ending::BlobLost => End::Broken(why),
                            _ => End::PlatformFailure(why),
                        };
                        let pause = pause_after(&end, platform_losses);
                        fetcher.bench.keep(Complete { handout, end }, pause);
                        ending
                    }
                };
                drop(pins);
                fetcher.bench.tell(Event::Ended(handout, ending));
                return fetcher.bench.cache.make_room_soon();
            }
            fetcher.bench.push(Job {
                handout,
                spec,
                platform_losses,
                control,
                _pins: pins,
            });
        });
    }

    async fn bring_all(
        &self,
        blobs: impl IntoIterator<Item = BlobHash>,
        pins: &mut Pins,
        control: &Control,
    ) -> Result<(), NotBrought> {
        for hash in blobs {
            self.bring(hash, pins, control).await?;
        }
        Ok(())
    }

    async fn bring(&self, hash: BlobHash, pins: &mut Pins, control: &Control) -> Result<(), NotBrought> {
        let turn = {
            let mut underway = self.underway.lock().unwrap_or_else(PoisonError::into_inner);
            underway.retain(|_, turn| Arc::strong_count(turn) > 1);
            underway.entry(hash).or_default().clone()
        };
        let mut stalled = match turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = turn.lock().await;
                // Tasks that wait for the same blob do not wait one after the other.
                if let Some(why) = &*turn {
                    return Err(NotBrought::ours(why.clone()));
                }
                turn
            }
        };
        let brought = self.bring_alone(hash, pins, control).await;
        *stalled = match &brought {
            Err(Trouble::Stalled(_)) => brought.as_ref().err().map(|trouble| trouble.of(&hash)),
            _ => None,
        };
        brought.map_err(|trouble| NotBrought {
            why: trouble.of(&hash),
            ending: trouble.ending(),
        })
    }

    async fn bring_alone(&self, hash: BlobHash, pins: &mut Pins, control: &Control) -> Result<(), Trouble> {
        if self.take(hash, pins).await? {
            return Ok(());
        }
        let mut pause = FIRST_PAUSE;
        let mut stalls = 0;
        for _ in 0..TRIES {
            let downloaded = self.download(hash, pins).await;
            if downloaded.is_err() {
                // Half a blob counts in no limit, and may be what has filled the disk.
                let part = self.bench.cache.incoming(&hash);
                let _ = tokio::time::timeout(self.stall, tokio::fs::remove_file(part)).await;
            }
            match downloaded {
                Err(Trouble::Stalled(what)) => {
                    stalls += 1;
                    tracing::warn!(%hash, what, stall = ?self.stall, "a blob does not come");
                    if stalls == STALLS || control.is_withdrawn() {
                        return Err(Trouble::Stalled(what));
                    }
                }
                Err(Trouble::Call(error)) if error.is_transient() && !control.is_withdrawn() => {
                    tracing::debug!(%hash, %error, "a blob did not come; trying again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                other => return other,
            }
        }
        Err(CallError::Unavailable("no judicator answered".into()).into())
    }

    /// Whether the blob is here. The first use in this life reads the whole file.
    async fn take(&self, hash: BlobHash, pins: &mut Pins) -> Result<bool, Trouble> {
        let cache = self.bench.cache.clone();
        let progress = Arc::new(AtomicU64::new(0));
        let counted = progress.clone();
        let mut taking = tokio::task::spawn_blocking(move || {
            let mut pins = cache.pins();
            (cache.take(hash, &mut pins, &counted), pins)
        });
        let mut seen = 0;
        loop {
            match tokio::time::timeout(self.stall, &mut taking).await {
                Ok(Ok((found, taken))) => {
                    pins.join(taken);
                    return Ok(found);
                }
                Ok(Err(error)) => return Err(std::io::Error::other(error).into()),
                Err(_) => {
                    let read = progress.load(Ordering::Relaxed);
                    if read == seen {
                        return Err(Trouble::Stalled("the disk gave no byte of it"));
                    }
                    seen = read;
                }
            }
        }
    }

    async fn download(&self, hash: BlobHash, pins: &mut Pins) -> Result<(), Trouble> {
        let mut bytes = self
            .within("no judicator answered", self.calls.get_blob(hash))
            .await??;
        let path = self.bench.cache.incoming(&hash);
        let full = "the disk took no byte of it";
        let mut file = self.within(full, tokio::fs::File::create(&path)).await??;
        let mut hasher = Sha256::new();
        let mut size = 0;
        while let Some(part) = self.within("no byte of it came", bytes.next()).await? {
            let part = part?;
            size += part.len() as u64;
            hasher.update(&part);
            self.within(full, file.write_all(&part)).await??;
        }
        self.within(full, file.flush()).await??;
        let actual = BlobHash(hasher.finalize().into());
        if actual != hash {
            // Cut short on the way; what is there is complete, or it would not be there.
            return Err(CallError::Unavailable(format!("blob {hash} arrived as {actual}")).into());
        }
        let cache = self.bench.cache.clone();
        let keeping = tokio::task::spawn_blocking(move || {
            let mut pins = cache.pins();
            cache.keep(hash, size, &mut pins).map(|()| pins)
        });
        let kept = self.within(full, keeping).await?;
        pins.join(kept.map_err(std::io::Error::other)??);
        Ok(())
    }

    /// Each step is progress; one that takes longer than this will not come.
    async fn within<T>(&self, else_what: &'static str, step: impl Future<Output = T>) -> Result<T, Trouble> {
        let waited = tokio::time::timeout(self.stall, step).await;
        waited.map_err(|_| Trouble::Stalled(else_what))
    }
}

/// Why a task's blobs are not here, and what that says of the executor.
struct NotBrought {
    why: String,
    ending: Ending,
}

impl NotBrought {
    fn ours(why: String) -> NotBrought {
        let ending = Ending::Broken;
        NotBrought { why, ending }
    }
}

enum Trouble {
    Call(CallError),
    Keep(std::io::Error),
    /// Nothing happened for too long.
    Stalled(&'static str),
}

impl Trouble {
    /// A blob that the store does not have is no trouble of this executor: other tasks run as well as before.
    fn ending(&self) -> Ending {
        match self {
            Trouble::Call(CallError::NoBlob(_) | CallError::DamagedBlob(_)) => Ending::BlobLost,
            Trouble::Call(_) | Trouble::Keep(_) | Trouble::Stalled(_) => Ending::Broken,
        }
    }

    fn of(&self, hash: &BlobHash) -> String {
        match self {
            Trouble::Call(error) => format!("could not get blob {hash}: {error}"),
            Trouble::Keep(error) => format!("could not keep blob {hash}: {error}"),
            Trouble::Stalled(what) => {
                format!("could not get blob {hash}: {what} for too long (executor.stall)")
            }
        }
    }
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Trouble {
        Trouble::Call(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Keep(error)
    }
}
