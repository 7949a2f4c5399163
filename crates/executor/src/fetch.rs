//! Brings a task's blobs here before it is passed to a slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use model::{Assignment, BlobHash, Complete, End};
use rpc::{CallError, Calls};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::cache::Pins;
use crate::work::{Bench, Control, Ending, Event, Job};

/// How often a blob is asked for while the judicator does not answer.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Fetcher {
    pub(crate) calls: Arc<dyn Calls>,
    pub(crate) bench: Arc<Bench>,
    /// One at a time for each blob: tasks that share one wait for the first.
    pub(crate) underway: Mutex<HashMap<BlobHash, Arc<tokio::sync::Mutex<()>>>>,
}

impl Fetcher {
    /// Passes the task on when all is here. Without blobs that is at once, in the caller's own time.
    pub(crate) fn prepare(self: &Arc<Self>, assignment: Assignment, control: Arc<Control>) {
        let Assignment { handout, spec } = assignment;
        let blobs = spec.blobs();
        let mut pins = self.bench.cache.pins();
        if blobs.is_empty() {
            return self.bench.push(Job {
                handout,
                spec,
                control,
                _pins: pins,
            });
        }
        let fetcher = self.clone();
        tokio::spawn(async move {
            for hash in blobs {
                if let Err(why) = fetcher.bring(hash, &mut pins, &control).await {
                    // A task that was taken away meanwhile needs no verdict.
                    let ending = match control.is_withdrawn() {
                        true => Ending::Withdrawn,
                        false => fetcher.bench.keep(Complete {
                            handout,
                            end: End::Broken(why),
                        }),
                    };
                    return fetcher.bench.tell(Event::Ended(handout, ending));
                }
            }
            fetcher.bench.push(Job {
                handout,
                spec,
                control,
                _pins: pins,
            });
        });
    }

    async fn bring(&self, hash: BlobHash, pins: &mut Pins, control: &Control) -> Result<(), String> {
        let turn = {
            let mut underway = self.underway.lock().unwrap_or_else(PoisonError::into_inner);
            underway.retain(|_, turn| Arc::strong_count(turn) > 1);
            underway.entry(hash).or_default().clone()
        };
        let _turn = turn.lock().await;
        // The first use in this life reads the whole file.
        if tokio::task::block_in_place(|| self.bench.cache.take(hash, pins)) {
            return Ok(());
        }
        let mut pause = FIRST_PAUSE;
        for _ in 0..TRIES {
            let downloaded = self.download(hash, pins).await;
            if downloaded.is_err() {
                // Half a blob counts in no limit, and may be what has filled the disk.
                let _ = tokio::fs::remove_file(self.bench.cache.incoming(&hash)).await;
            }
            match downloaded {
                Err(Trouble::Call(error)) if error.is_transient() && !control.is_withdrawn() => {
                    tracing::debug!(%hash, %error, "a blob did not come; trying again");
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(Trouble::Call(error)) => return Err(format!("could not get blob {hash}: {error}")),
                Err(Trouble::Keep(error)) => return Err(format!("could not keep blob {hash}: {error}")),
                Ok(()) => return Ok(()),
            }
        }
        Err(format!("could not get blob {hash}: no judicator answered"))
    }

    async fn download(&self, hash: BlobHash, pins: &mut Pins) -> Result<(), Trouble> {
        let mut bytes = self.calls.get_blob(hash).await?;
        let path = self.bench.cache.incoming(&hash);
        let mut file = tokio::fs::File::create(&path).await?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        while let Some(part) = bytes.next().await {
            let part = part?;
            size += part.len() as u64;
            hasher.update(&part);
            file.write_all(&part).await?;
        }
        file.flush().await?;
        let actual = BlobHash(hasher.finalize().into());
        if actual != hash {
            // Cut short on the way; what is there is complete, or it would not be there.
            return Err(CallError::Unavailable(format!("blob {hash} arrived as {actual}")).into());
        }
        self.bench.cache.keep(hash, size, pins)?;
        Ok(())
    }
}

enum Trouble {
    Call(CallError),
    Keep(std::io::Error),
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
