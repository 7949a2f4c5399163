//! The blob scan: reads all blobs from time to time, so that damage is found before a task needs the blob, and removes
//! files that a crash or an interrupted upload left behind.

use std::sync::Arc;
use std::time::Duration;

use error_causes::with_causes;
use futures::StreamExt;
use model::BlobHash;
use store::StoreError;
use uuid::Uuid;

use crate::Judicator;
use crate::metric_names::{DAMAGED, ORPHANED};

/// The number of parts that the blobs are scanned in: one for each first byte of the hash.
const PARTS: u32 = 256;
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// Damaged blobs are counted after this judicator found or replaced one, and every minute for changes by others, but at
/// most once a second.
const COUNT_AT_LEAST_EVERY: Duration = Duration::from_secs(60);
const COUNT_AT_MOST_EVERY: Duration = Duration::from_secs(1);
const REMOVE_PARTIAL_UPLOADS_EVERY: Duration = Duration::from_secs(3600);
/// The read rate of the scan, in bytes per second.
const RATE: u32 = 16 << 20;

impl Judicator {
    pub(crate) async fn scan_blobs(self: Arc<Self>) {
        tokio::join!(
            self.scan_parts(),
            self.count_damaged(),
            self.remove_old_partial_uploads()
        );
    }

    /// Each judicator has its own folder of incoming blobs, so this needs no leader.
    async fn remove_old_partial_uploads(&self) {
        loop {
            self.partial_uploads.remove_old().await;
            tokio::time::sleep(REMOVE_PARTIAL_UPLOADS_EVERY).await;
        }
    }

    async fn scan_parts(&self) {
        let pause = (self.options.scan_blobs / PARTS).max(MIN_PAUSE);
        // Begins with a random part, so that a node that restarts often still scans all of them.
        let mut part = Uuid::now_v7().into_bytes()[15];
        loop {
            tokio::time::sleep(pause).await;
            if !self.leads() {
                continue;
            }
            if let Err(error) = self.scan_part(part).await {
                tracing::warn!(error = with_causes(&error), part, "could not scan some blobs");
            }
            part = part.wrapping_add(1);
        }
    }

    async fn count_damaged(&self) {
        loop {
            match self.store.count_damaged_blobs().await {
                Ok(damaged) => metrics::gauge!(DAMAGED).set(damaged as f64),
                Err(error) => {
                    tracing::debug!(error = with_causes(&error), "could not count damaged blobs");
                }
            }
            tokio::time::sleep(COUNT_AT_MOST_EVERY).await;
            let changed = self.blobs_changed.notified();
            // A timeout is a reason to count, too.
            let _ = tokio::time::timeout(COUNT_AT_LEAST_EVERY, changed).await;
        }
    }

    async fn scan_part(&self, first_byte: u8) -> Result<(), StoreError> {
        let scanned = self.store.scan_blobs(first_byte).await?;
        metrics::counter!(ORPHANED).increment(scanned.orphans_removed as u64);
        for hash in scanned.intact {
            match self.read_through(hash).await {
                // The store has marked and logged it.
                Err(StoreError::DamagedBlob(_) | StoreError::BlobNotFound(_)) => {
                    self.blobs_changed.notify_one()
                }
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
