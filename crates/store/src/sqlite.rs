//! The store of one machine: a SQLite database for tasks, and files for blobs.
//!
//! One thread writes (`writer`), a few connections read, so that a slow search never holds up a report.
//! Each call is one file: `add`, `cancel`, `report`, `search`, and so on.

mod add;
mod backup;
mod blobs;
mod cancel;
mod column;
mod connect;
mod executors;
mod failure;
mod folder;
mod group;
mod readers;
mod report;
mod retire;
mod rows;
mod schema;
mod search;
mod session;
mod totals;
mod transition;
mod writer;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::{Added, BlobHash, ExecutorState, Moment, Page, Query, Report, Task, TaskId};
use tokio::sync::broadcast;

pub use self::backup::{BackedUp, BackupError, backup};

use self::add::Draft;
use self::folder::{Folder, Lock};
use self::readers::Readers;
use self::report::Sent;
use self::retire::Retention;
use self::writer::Writer;
use crate::{
    BlobBytes, BlobFile, Change, NewTask, Reported, Retired, SessionSeen, StoreError, TaskStore, Totals,
};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often a task may be lost before it ends as `system_error`.
    pub max_attempts: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_attempts: 3 }
    }
}

/// Connections for what is short and often asked.
const QUICK: usize = 3;
/// Connections for searches, which may be slow: apart, so that they never make the short ones wait.
const SEARCHES: usize = 2;
/// What a small operation weighs in a group, in bytes: about what it writes.
const SMALL: usize = 512;

/// Fields are dropped in this order: the writer comes after the readers, so that it is the last to close the
/// database and brings its log home, and the lock is let go last of all.
pub struct SqliteStore {
    quick: Readers,
    searches: Readers,
    writer: Writer,
    folder: Folder,
    _lock: Lock,
}

impl SqliteStore {
    /// Opens the store in this folder, and makes it if there is none.
    pub fn open(folder: &Path, options: Options) -> Result<SqliteStore, StoreError> {
        let (folder, lock) = Folder::open(folder)?;
        let connection = connect::writer(&folder)?;
        folder::sync_folder(folder.root())?;
        let writer = Writer::start(connection, folder.clone(), options)?;
        Ok(SqliteStore {
            quick: Readers::new(folder.clone(), QUICK),
            searches: Readers::new(folder.clone(), SEARCHES),
            writer,
            folder,
            _lock: lock,
        })
    }

    /// How many commits there were since it was opened: each is one sync of the disk.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn add(&self, tasks: Vec<NewTask>) -> Result<Vec<Added>, StoreError> {
        let drafts = tasks.into_iter().map(Draft::of).collect::<Result<Vec<_>, _>>()?;
        let weight = drafts.iter().map(Draft::weight).sum();
        self.writer
            .submit(weight, move |group| add::add(group, drafts))
            .await
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.writer
            .submit(SMALL, move |group| cancel::cancel(group, id))
            .await
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.quick
            .read(move |connection| rows::task(connection, id))
            .await
    }

    async fn search(&self, query: Query) -> Result<Page, StoreError> {
        self.searches
            .read(move |connection| search::search(connection, &query))
            .await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.quick.read(|connection| totals::totals(connection)).await
    }

    async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        let sent = Sent::of(report)?;
        self.writer
            .submit(SMALL + sent.weight(), move |group| report::report(group, &sent))
            .await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        self.quick
            .read(|connection| executors::executors(connection))
            .await
    }

    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError> {
        self.quick
            .read(|connection| executors::live_sessions(connection))
            .await
    }

    async fn expire(&self, seen: SessionSeen) -> Result<Option<usize>, StoreError> {
        self.writer
            .submit(SMALL, move |group| executors::expire(group, &seen))
            .await
    }

    async fn forget_executors(&self, before: Moment) -> Result<usize, StoreError> {
        self.writer
            .submit(SMALL, move |group| executors::forget(group, before))
            .await
    }

    async fn retire(
        &self,
        done_before: Moment,
        unused_since: Moment,
        limit: usize,
    ) -> Result<Retired, StoreError> {
        let weight = limit.saturating_mul(SMALL);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let retention = Retention {
            done_before,
            unused_since,
            limit,
        };
        self.writer
            .submit(weight, move |group| retire::retire(group, retention))
            .await
    }

    fn incoming(&self) -> PathBuf {
        self.folder.incoming()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        blobs::sync_file(&file.path).await?;
        self.writer
            .submit(SMALL, move |group| blobs::put(group, &file))
            .await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        let weight = hashes.len() * SMALL;
        self.writer
            .submit(weight, move |group| blobs::has(group, &hashes))
            .await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
        let known = self
            .quick
            .read(move |connection| blobs::is_known(connection, hash))
            .await?;
        if known {
            blobs::stream(&self.folder, hash).await
        } else {
            Ok(None)
        }
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.writer.changes()
    }
}
