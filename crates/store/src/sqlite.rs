//! The store of a single machine: a SQLite database for tasks, and files for blobs.
//!
//! One thread writes (`writer`) and a few connections read, so that a slow search never delays a report.
//! Each operation has a file of its own: `add`, `cancel`, `report`, `search`, and so on.

mod add;
mod backup;
mod blob_scan;
mod blobs;
mod cancel;
mod connect;
mod drain;
mod executors;
mod failure;
mod figures;
mod group_transaction;
mod groups;
mod ledger;
mod problems;
mod queued_before;
mod read_pool;
mod report;
mod retention;
mod rows;
mod schema;
mod search;
mod session;
mod sql_value;
mod store_folder;
mod transition;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    AddedTask, BlobHash, ExecutorDrain, ExecutorName, ExecutorState, GroupKey, GroupPage, GroupQuery,
    GroupState, Page, QueuePlace, QueuedBefore, Report, StoreAge, Task, TaskCounts, TaskForm, TaskId,
    TaskQuery,
};
use supervise::FailureWatch;
use tokio::sync::{Semaphore, broadcast};
use tokio::task;

pub use self::backup::{BackupError, BackupSummary, backup};

use self::add::EncodedTask;
use self::blobs::BlobIntegrity;
use self::read_pool::ReadPool;
use self::report::EncodedSqliteReport;
use self::retention::RetentionRequest;
use self::store_folder::{FolderLock, OpenDatabaseFiles, StoreFolder};
use self::writer::WriterHandle;
use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::disk_probe;
use crate::search::{MAX_WAITING_LISTS, MAX_WAITING_TEXT_SEARCHES, SEARCH_SCAN_LIMIT};
use crate::{
    BlobFile, BlobScanResult, BlobStream, ChangeEvent, HandledReport, MAX_CANCELLED_AT_ONCE, NewTaskRecord,
    ObservedSession, RetentionSummary, StoreError, TaskStore, TaskTotals,
};

/// The settings of a [`SqliteStore`]: how many attempts of a task may be lost, and how far a search scans.
#[derive(Clone, Copy, Debug)]
pub struct SqliteStoreOptions {
    /// How many attempts of a task may be lost before it ends as `system_error`.
    pub max_attempts: u32,
    /// How many tasks a search examines for one page.
    pub search_scan_limit: usize,
}

impl Default for SqliteStoreOptions {
    fn default() -> SqliteStoreOptions {
        SqliteStoreOptions {
            max_attempts: 3,
            search_scan_limit: SEARCH_SCAN_LIMIT,
        }
    }
}

/// Connections for short reads.
const SHORT_READ_CONNECTIONS: usize = 3;
/// How many short reads may wait for a connection. Each takes less than a millisecond.
const MAX_WAITING_SHORT_READS: usize = 4096;
/// Connections for searches without a text. They are separate, so that no text search delays a list.
const LIST_CONNECTIONS: usize = 2;
/// Connections for text searches, which may be slow.
const TEXT_SEARCH_CONNECTIONS: usize = 2;
/// About how much a small operation writes.
const SMALL_OPERATION_BYTES: usize = 512;
/// How many files of blobs are synced at a time, each on a thread of its own. The more there are, the more syncs share a
/// write to the disk.
const MAX_FILE_SYNCS: usize = 64;
/// How many orphaned files one transaction removes.
const ORPHANS_PER_TRANSACTION: usize = 500;

/// The [`TaskStore`] of a single machine: a folder with a SQLite database for tasks and with files for blobs.
///
/// Its fields are dropped in the order of their declaration: the writer after the readers, because the last connection
/// that closes the database checkpoints the WAL, and the lock at the end.
pub struct SqliteStore {
    short_reads: ReadPool,
    lists: ReadPool,
    text_searches: ReadPool,
    search_scan_limit: usize,
    /// Permits to sync a file of a blob.
    file_syncs: Arc<Semaphore>,
    writer: WriterHandle,
    folder: StoreFolder,
    open_files: OpenDatabaseFiles,
    _lock: FolderLock,
}

impl SqliteStore {
    /// Opens the store in this folder, or creates it.
    pub fn open(folder: &Path, options: SqliteStoreOptions) -> Result<SqliteStore, StoreError> {
        let (folder, lock) = StoreFolder::open(folder)?;
        let connection = connect::writer(&folder)?;
        store_folder::sync_folder(folder.root())?;
        let writer = WriterHandle::start(connection, folder.clone(), options)?;
        let pool = |what, max_running, max_waiting| {
            let limiter = ConcurrencyLimiter::new(what, max_running, max_waiting);
            ReadPool::new(folder.clone(), limiter)
        };
        Ok(SqliteStore {
            short_reads: pool("calls", SHORT_READ_CONNECTIONS, MAX_WAITING_SHORT_READS),
            lists: pool("searches", LIST_CONNECTIONS, MAX_WAITING_LISTS),
            text_searches: pool(
                "text searches",
                TEXT_SEARCH_CONNECTIONS,
                MAX_WAITING_TEXT_SEARCHES,
            ),
            search_scan_limit: options.search_scan_limit,
            file_syncs: Arc::new(Semaphore::new(MAX_FILE_SYNCS)),
            writer,
            open_files: folder.open_files()?,
            folder,
            _lock: lock,
        })
    }

    /// How many unreadable rows were found since the store was opened.
    pub fn unreadable_rows(&self) -> usize {
        self.folder.unreadable_rows().count()
    }

    /// How many commits, and so disk syncs, there were since the store was opened.
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Whether the blob exists. One that is marked as damaged is an error.
    async fn has_intact_blob(&self, hash: BlobHash) -> Result<bool, StoreError> {
        let integrity = self
            .short_reads
            .read(move |connection| blobs::find(connection, hash))
            .await?;
        match integrity {
            Some(BlobIntegrity::Intact) => Ok(true),
            Some(BlobIntegrity::Damaged) => Err(StoreError::DamagedBlob(hash)),
            None => Ok(false),
        }
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn add(&self, tasks: Vec<NewTaskRecord>) -> Result<Vec<AddedTask>, StoreError> {
        let tasks = tasks
            .into_iter()
            .map(EncodedTask::encode)
            .collect::<Result<Vec<_>, _>>()?;
        let bytes = tasks.iter().map(EncodedTask::bytes).sum();
        self.writer
            .submit(bytes, move |transaction| add::add(transaction, tasks))
            .await
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                cancel::cancel(transaction, id)
            })
            .await
    }

    async fn cancel_many(&self, ids: Vec<TaskId>) -> Result<u64, StoreError> {
        let bytes = ids.len().min(MAX_CANCELLED_AT_ONCE) * SMALL_OPERATION_BYTES;
        self.writer
            .submit(bytes, move |transaction| cancel::cancel_many(transaction, &ids))
            .await
    }

    async fn group(&self, key: GroupKey) -> Result<Option<GroupState>, StoreError> {
        self.short_reads
            .read(move |connection| groups::group(connection, &key))
            .await
    }

    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, StoreError> {
        let folder = self.folder.clone();
        self.short_reads
            .read(move |connection| groups::groups(connection, &query, folder.unreadable_rows()))
            .await
    }

    fn newer_form(&self) -> Option<TaskForm> {
        self.folder.newer_forms().newest()
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        let folder = self.folder.clone();
        self.short_reads
            .read(move |connection| rows::task(connection, id, folder.unreadable_rows()))
            .await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, StoreError> {
        let pool = match query.text {
            Some(_) => &self.text_searches,
            None => &self.lists,
        };
        let (scan_limit, folder) = (self.search_scan_limit, self.folder.clone());
        pool.read(move |connection| search::search(connection, &query, scan_limit, folder.unreadable_rows()))
            .await
    }

    async fn queued_before(&self, place: QueuePlace) -> Result<QueuedBefore, StoreError> {
        self.lists
            .read(move |connection| queued_before::queued_before(connection, &place))
            .await
    }

    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, StoreError> {
        let pool = match query.text {
            Some(_) => &self.text_searches,
            None => &self.lists,
        };
        let scan_limit = self.search_scan_limit;
        pool.read(move |connection| search::count(connection, &query, scan_limit))
            .await
    }

    async fn totals(&self) -> Result<TaskTotals, StoreError> {
        self.short_reads
            .read(|connection| ledger::totals(connection))
            .await
    }

    async fn report(&self, report: Report) -> Result<HandledReport, StoreError> {
        let report = EncodedSqliteReport::encode(report)?;
        self.writer
            .submit(SMALL_OPERATION_BYTES + report.bytes(), move |transaction| {
                report::report(transaction, &report)
            })
            .await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        let folder = self.folder.clone();
        self.short_reads
            .read(move |connection| executors::executors(connection, &folder))
            .await
    }

    async fn newest_executor_form(&self) -> Result<Option<TaskForm>, StoreError> {
        self.short_reads
            .read(|connection| executors::newest_form(connection))
            .await
    }

    async fn set_drain(
        &self,
        executor: ExecutorName,
        drain: Option<ExecutorDrain>,
    ) -> Result<bool, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                drain::set(transaction, &executor, drain.as_ref())
            })
            .await
    }

    async fn live_sessions(&self) -> Result<Vec<ObservedSession>, StoreError> {
        let folder = self.folder.clone();
        self.short_reads
            .read(move |connection| executors::live_sessions(connection, folder.unreadable_rows()))
            .await
    }

    async fn expire(&self, observed: ObservedSession) -> Result<Option<usize>, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                executors::expire(transaction, &observed)
            })
            .await
    }

    async fn age(&self) -> Result<StoreAge, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, |transaction| Ok(transaction.age()))
            .await
    }

    async fn advance_age(&self, from: StoreAge, by: Duration) -> Result<StoreAge, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                transaction.advance_age(from, by);
                Ok(transaction.age())
            })
            .await
    }

    async fn remove_ended_executors(&self, ended_before: StoreAge) -> Result<usize, StoreError> {
        self.writer
            .submit(SMALL_OPERATION_BYTES, move |transaction| {
                executors::remove_ended(transaction, ended_before)
            })
            .await
    }

    async fn apply_retention(
        &self,
        done_before: StoreAge,
        unused_since: StoreAge,
        limit: usize,
    ) -> Result<RetentionSummary, StoreError> {
        let bytes = limit.saturating_mul(SMALL_OPERATION_BYTES);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let request = RetentionRequest {
            done_before,
            unused_since,
            limit,
        };
        self.writer
            .submit(bytes, move |transaction| retention::apply(transaction, request))
            .await
    }

    fn incoming_folder(&self) -> PathBuf {
        self.folder.incoming_folder()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        let permit = self.file_syncs.clone().acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Closed)?;
        let (folder, writer) = (self.folder.clone(), self.writer.downgrade());
        let put = async move {
            let moved = blobs::move_file(&folder, &file).await?;
            drop(permit);
            writer
                .submit(SMALL_OPERATION_BYTES, move |transaction| {
                    blobs::put(transaction, &file, moved)
                })
                .await
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a file that is moved needs its row, also if the caller's future is dropped in between"
        )]
        let put = tokio::spawn(put).await;
        put.map_err(|ended| match ended.is_panic() {
            true => StoreError::Panicked { step: "put a blob" },
            // The runtime is shutting down.
            false => StoreError::Closed,
        })?
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        let bytes = hashes.len() * SMALL_OPERATION_BYTES;
        self.writer
            .submit(bytes, move |transaction| blobs::has(transaction, &hashes))
            .await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobStream>, StoreError> {
        match self.has_intact_blob(hash).await? {
            true => blobs::open(&self.folder, self.writer.downgrade(), hash).await,
            false => Ok(None),
        }
    }

    async fn get_blob_from(&self, hash: BlobHash, offset: u64) -> Result<Option<BlobStream>, StoreError> {
        match self.has_intact_blob(hash).await? {
            true => blobs::open_from(&self.folder, self.writer.downgrade(), hash, offset).await,
            false => Ok(None),
        }
    }

    async fn check(&self) -> Result<(), StoreError> {
        let open_files = self.open_files.clone();
        task::spawn_blocking(move || open_files.check())
            .await
            .map_err(|_| StoreError::Closed)??;
        disk_probe::check_writable(self.folder.incoming_folder()).await?;
        let written = self
            .writer
            .submit(SMALL_OPERATION_BYTES, |transaction| {
                ledger::write_check(transaction)
            })
            .await?;
        self.short_reads
            .read(move |connection| ledger::read_check(connection, written))
            .await
    }

    fn failures(&self) -> FailureWatch {
        self.writer.failures()
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobScanResult, StoreError> {
        // The files are listed before the rows: a blob that is put meanwhile is then in the rows, or its file is not in
        // the list.
        let folder = self.folder.clone();
        let files = task::spawn_blocking(move || blob_scan::list_files(&folder, first_byte))
            .await
            .map_err(|_| StoreError::Closed)??;
        let folder = self.folder.clone();
        let rows = self
            .short_reads
            .read(move |connection| blob_scan::list_rows(connection, first_byte, folder.unreadable_rows()))
            .await?;
        let mut scanned = BlobScanResult::default();
        let orphans: Vec<_> = files
            .into_iter()
            // Each file could belong to an unreadable row.
            .filter(|file| rows.all_readable && !rows.damaged.contains_key(file))
            .collect();
        for files in orphans.chunks(ORPHANS_PER_TRANSACTION) {
            let files = files.to_vec();
            scanned.orphans_removed += self
                .writer
                .submit(files.len() * SMALL_OPERATION_BYTES, move |transaction| {
                    blob_scan::remove_orphans(transaction, &files)
                })
                .await?;
        }
        let intact = rows.damaged.into_iter().filter(|(_, damaged)| !damaged);
        scanned.intact = intact.map(|(hash, _)| hash).collect();
        Ok(scanned)
    }

    async fn count_damaged_blobs(&self) -> Result<u64, StoreError> {
        self.short_reads
            .read(|connection| blob_scan::count_damaged(connection))
            .await
    }

    fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.writer.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_list_is_answered_while_text_searches_use_all_their_connections() {
        let root = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(root.path(), SqliteStoreOptions::default()).unwrap();
        let text = || TaskQuery {
            text: Some("nowhere".into()),
            ..TaskQuery::default()
        };
        // All connections for text searches are in use until the list is answered, and their queue is full.
        let answered = Arc::new(Barrier::new(TEXT_SEARCH_CONNECTIONS + 1));
        let mut busy = vec![];
        for _ in 0..TEXT_SEARCH_CONNECTIONS {
            let answered = answered.clone();
            let held = store.text_searches.read(move |_| {
                answered.wait();
                Ok(())
            });
            busy.push(held.boxed());
        }
        let mut busy = Box::pin(join_all(busy));
        assert!(busy.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(join_all(
            (0..MAX_WAITING_TEXT_SEARCHES).map(|_| store.search(text())),
        ));
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = store.search(text()).await;
        assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
        assert_eq!(store.search(TaskQuery::default()).await.unwrap(), Page::default());
        answered.wait();
        assert!(busy.await.iter().all(Result::is_ok));
        assert!(waiting.await.iter().all(Result::is_ok));
    }
}
