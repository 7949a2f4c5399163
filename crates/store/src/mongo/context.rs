//! The connection and the in-memory state that all operations of one store share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use model::UnixTime;
use mongodb::bson::{RawDocumentBuf, Timestamp};
use mongodb::{Client, Collection, Database};

use super::groups::EmptyGroupSweep;
use super::largest_executors::LargestExecutorsCache;
use super::report::ClaimReservations;
use crate::end_counter::EndCounter;
use crate::newer_forms::NewerForms;
use crate::tools_cache::ToolsCache;
use crate::unreadable_rows::UnreadableRows;

// The names of the collections.
pub(super) const TASKS: &str = "tasks";
pub(super) const PARTS: &str = "parts";
pub(super) const EXECUTORS: &str = "executors";
pub(super) const LEDGER: &str = "ledger";
pub(super) const GROUPS: &str = "groups";
pub(super) const BLOBS: &str = "blobs";
pub(super) const CHUNKS: &str = "fs.chunks";
pub(super) const FILES: &str = "fs.files";
pub(super) const UPLOADS: &str = "uploads";
pub(super) const META: &str = "meta";
pub(super) const FIGURES: &str = "figures";
pub(super) const PROBLEMS: &str = "problems";

/// The connection to MongoDB, and the in-memory state that all operations of one `MongoStore` share.
pub(super) struct StoreContext {
    pub(super) client: Client,
    pub(super) database: Database,
    pub(super) max_attempts: u32,
    pub(super) reservations: ClaimReservations,
    pub(super) largest_executors: LargestExecutorsCache,
    pub(super) tools_cache: ToolsCache,
    pub(super) empty_group_sweep: EmptyGroupSweep,
    /// Forms of tasks that claims have met.
    pub(super) newer_forms: NewerForms,
    /// Documents that were found unreadable.
    pub(super) unreadable_rows: UnreadableRows,
    pub(super) ends: EndCounter,
    last_add_time: Mutex<UnixTime>,
    /// The cluster time of the latest transaction that was acknowledged to this process.
    last_commit_time: AtomicU64,
}

impl StoreContext {
    pub(super) fn new(client: Client, database: &str, max_attempts: u32) -> StoreContext {
        StoreContext {
            database: client.database(database),
            client,
            max_attempts,
            reservations: ClaimReservations::default(),
            largest_executors: LargestExecutorsCache::default(),
            tools_cache: ToolsCache::default(),
            empty_group_sweep: EmptyGroupSweep::default(),
            newer_forms: NewerForms::default(),
            unreadable_rows: UnreadableRows::default(),
            ends: EndCounter::default(),
            last_add_time: Mutex::new(UnixTime(0)),
            last_commit_time: AtomicU64::new(0),
        }
    }

    /// The documents are raw, so that an unreadable one does not fail the whole read; see `task_document`.
    pub(super) fn tasks(&self) -> Collection<RawDocumentBuf> {
        self.database.collection(TASKS)
    }

    pub(super) fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.database.collection(name)
    }

    /// The add time of the next task: now, but later than all earlier add times of this process, so that add times
    /// order its tasks.
    pub(super) fn next_add_time(&self) -> UnixTime {
        let mut last = self.last_add_time.lock().unwrap_or_else(PoisonError::into_inner);
        *last = now().max(UnixTime(last.0 + 1));
        *last
    }

    /// Makes all later add times greater than `time`.
    pub(super) fn advance_add_time(&self, time: UnixTime) {
        let mut last = self.last_add_time.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last).max(time);
    }

    pub(super) fn record_commit_time(&self, time: Timestamp) {
        self.last_commit_time
            .fetch_max(timestamp_to_u64(time), Ordering::Relaxed);
    }

    pub(super) fn last_commit_time(&self) -> u64 {
        self.last_commit_time.load(Ordering::Relaxed)
    }
}

pub(super) fn now() -> UnixTime {
    UnixTime::from(SystemTime::now())
}

/// A cluster time as one number, for comparison.
pub(super) fn timestamp_to_u64(time: Timestamp) -> u64 {
    (u64::from(time.time) << 32) | u64::from(time.increment)
}
