//! What all operations share: the connection, the clock of additions, and who is claiming what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use model::Moment;
use mongodb::bson::{RawDocumentBuf, Timestamp};
use mongodb::{Client, Collection, Database};

use super::report::Reservations;
use super::session::LargestExecutor;
use crate::set_aside::SetAside;

/// The collections, by their names in the database.
pub(super) const TASKS: &str = "tasks";
pub(super) const PARTS: &str = "parts";
pub(super) const EXECUTORS: &str = "executors";
pub(super) const LEDGER: &str = "ledger";
pub(super) const BLOBS: &str = "blobs";
pub(super) const CHUNKS: &str = "fs.chunks";
pub(super) const FILES: &str = "fs.files";
pub(super) const UPLOADS: &str = "uploads";
pub(super) const META: &str = "meta";

pub(super) struct Base {
    pub(super) client: Client,
    pub(super) database: Database,
    pub(super) max_attempts: u32,
    pub(super) reserved: Reservations,
    pub(super) largest: LargestExecutor,
    /// Documents that cannot be read.
    pub(super) set_aside: SetAside,
    last_add: Mutex<Moment>,
    /// The time of the last transaction that was acknowledged here, as the replica set counts time.
    latest: AtomicU64,
}

impl Base {
    pub(super) fn new(client: Client, database: &str, max_attempts: u32) -> Base {
        Base {
            database: client.database(database),
            client,
            max_attempts,
            reserved: Reservations::default(),
            largest: LargestExecutor::default(),
            set_aside: SetAside::default(),
            last_add: Mutex::new(Moment(0)),
            latest: AtomicU64::new(0),
        }
    }

    /// Raw, for one that cannot be read must not keep the others from being read: see `row`.
    pub(super) fn tasks(&self) -> Collection<RawDocumentBuf> {
        self.database.collection(TASKS)
    }

    pub(super) fn collection<T: Send + Sync>(&self, name: &str) -> Collection<T> {
        self.database.collection(name)
    }

    /// The time of the next add: now, but later than every other of this process, so that it orders them.
    pub(super) fn next_add_time(&self) -> Moment {
        let mut last = self.last_add.lock().unwrap_or_else(PoisonError::into_inner);
        *last = now().max(Moment(last.0 + 1));
        *last
    }

    /// Additions come after this one.
    pub(super) fn saw_add(&self, time: Moment) {
        let mut last = self.last_add.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last).max(time);
    }

    pub(super) fn acknowledged(&self, time: Timestamp) {
        self.latest.fetch_max(order(time), Ordering::Relaxed);
    }

    pub(super) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }
}

pub(super) fn now() -> Moment {
    Moment::from(SystemTime::now())
}

/// The replica set's time as one number.
pub(super) fn order(time: Timestamp) -> u64 {
    (u64::from(time.time) << 32) | u64::from(time.increment)
}
