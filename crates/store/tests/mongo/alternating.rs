//! Two stores on one database, asked in turn: whatever one has answered, the other must know.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::{Added, Age, BlobHash, ExecutorState, Page, Query, Report, Task, TaskId};
use store::mongo::MongoStore;
use store::{
    BlobBytes, BlobFile, BlobShelf, Change, NewTask, Reported, Retired, SessionSeen, StoreError, TaskStore,
    Totals,
};
use supervise::Failures;
use tokio::sync::broadcast;

pub(crate) struct Alternating {
    stores: [MongoStore; 2],
    count: AtomicUsize,
}

impl Alternating {
    pub(crate) fn new(stores: [MongoStore; 2]) -> Alternating {
        Alternating {
            stores,
            count: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> &MongoStore {
        &self.stores[self.count.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl TaskStore for Alternating {
    async fn add(&self, tasks: Vec<NewTask>) -> Result<Vec<Added>, StoreError> {
        self.next().add(tasks).await
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.next().cancel(id).await
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.next().get(id).await
    }

    async fn search(&self, query: Query) -> Result<Page, StoreError> {
        self.next().search(query).await
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        self.next().totals().await
    }

    async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        self.next().report(report).await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        self.next().executors().await
    }

    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError> {
        self.next().live_sessions().await
    }

    async fn expire(&self, seen: SessionSeen) -> Result<Option<usize>, StoreError> {
        self.next().expire(seen).await
    }

    async fn age(&self) -> Result<Age, StoreError> {
        self.next().age().await
    }

    async fn advance_age(&self, from: Age, by: Duration) -> Result<Age, StoreError> {
        self.next().advance_age(from, by).await
    }

    async fn forget_executors(&self, gone_before: Age) -> Result<usize, StoreError> {
        self.next().forget_executors(gone_before).await
    }

    async fn retire(&self, done_before: Age, unused: Age, limit: usize) -> Result<Retired, StoreError> {
        self.next().retire(done_before, unused, limit).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.next().check().await
    }

    fn failures(&self) -> Failures {
        self.next().failures()
    }

    fn incoming(&self) -> PathBuf {
        self.next().incoming()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        self.next().put_blob(file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        self.next().has_blobs(hashes).await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
        self.next().get_blob(hash).await
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobShelf, StoreError> {
        self.next().scan_blobs(first_byte).await
    }

    async fn damaged_blobs(&self) -> Result<u64, StoreError> {
        self.next().damaged_blobs().await
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.next().changes()
    }
}
