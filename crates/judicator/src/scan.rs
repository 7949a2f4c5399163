//! Reads all blobs through in time, so that damage is found before somebody needs them, and has what a crash left removed.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::{BlobHash, with_causes};
use store::StoreError;
use uuid::Uuid;

use crate::Judicator;
use crate::measure::{DAMAGED, ORPHANED};

/// Blobs are scanned in as many parts, by the first byte of their hash.
const PARTS: u32 = 256;
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// Damage is counted when this judicator has found or mended some, and every minute for what others did; not more often
/// than every second.
const COUNT_AT_LEAST_EVERY: Duration = Duration::from_secs(60);
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The most that is read in a second, in bytes.
const RATE: u32 = 16 << 20;

impl Judicator {
    pub(crate) async fn scan_blobs(self: Arc<Self>) {
        tokio::join!(self.scan_parts(), self.count_damaged());
    }

    async fn scan_parts(&self) {
        let pause = (self.options.scan_blobs / PARTS).max(SHORTEST_PAUSE);
        // Not always with the same: a node that is often restarted comes to all of them too.
        let mut part = Uuid::now_v7().into_bytes()[15];
        loop {
            tokio::time::sleep(pause).await;
            if !self.leads() {
                continue;
            }
            if let Err(error) = self.scan_part(part).await {
                tracing::warn!(
                    error = with_causes(&error),
                    part,
                    "could not scan a part of the blobs"
                );
            }
            part = part.wrapping_add(1);
        }
    }

    async fn count_damaged(&self) {
        loop {
            match self.store.damaged_blobs().await {
                Ok(damaged) => metrics::gauge!(DAMAGED).set(damaged as f64),
                Err(error) => {
                    tracing::debug!(error = with_causes(&error), "could not count damaged blobs");
                }
            }
            tokio::time::sleep(COUNT_AT_MOST_EVERY).await;
            let changed = self.blobs_changed.notified();
            // Without a change the time is up, which is as good a reason.
            let _ = tokio::time::timeout(COUNT_AT_LEAST_EVERY, changed).await;
        }
    }

    async fn scan_part(&self, first_byte: u8) -> Result<(), StoreError> {
        let shelf = self.store.scan_blobs(first_byte).await?;
        metrics::counter!(ORPHANED).increment(shelf.orphans as u64);
        for hash in shelf.blobs {
            match self.read_through(hash).await {
                // The store has marked it and told so.
                Err(StoreError::DamagedBlob(_) | StoreError::NoBlob(_)) => self.blobs_changed.notify_one(),
                read => read?,
            }
        }
        Ok(())
    }

    async fn read_through(&self, hash: BlobHash) -> Result<(), StoreError> {
        let Some(mut bytes) = self.store.get_blob(hash).await? else {
            return Ok(());
        };
        while let Some(piece) = bytes.next().await {
            let size = piece?.len() as f64;
            tokio::time::sleep(Duration::from_secs_f64(size / f64::from(RATE))).await;
        }
        Ok(())
    }
}
