//! Two stores on one database that take turns with the calls: each must see what the other has acknowledged.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::{
    AddedTask, BlobHash, ExecutorDrain, ExecutorName, ExecutorState, GroupKey, GroupPage, GroupQuery,
    GroupState, HistoryMinute, JudgeProblem, Page, ProblemEditor, ProblemName, ProblemSummary, QueuePlace,
    QueuedBefore, Report, StoreAge, Task, TaskCounts, TaskForm, TaskId, TaskQuery, UnixTime,
};
use store::mongo::MongoStore;
use store::{
    BlobFile, BlobScanResult, BlobStream, ChangeEvent, EndsWithoutResult, HandledReport, HistoryStore,
    NewTaskRecord, ObservedSession, ProblemBounds, ProblemStore, RetentionSummary, StoreError, TaskStore,
    TaskTotals, WrittenFigures,
};
use supervise::FailureWatch;
use tokio::sync::broadcast;

/// A [`TaskStore`] for contract tests that passes its calls to two MongoDB stores in turn, like two judicators.
pub(crate) struct AlternatingStores {
    stores: [MongoStore; 2],
    count: AtomicUsize,
}

impl AlternatingStores {
    pub(crate) fn new(stores: [MongoStore; 2]) -> AlternatingStores {
        AlternatingStores {
            stores,
            count: AtomicUsize::new(0),
        }
    }

    fn next(&self) -> &MongoStore {
        &self.stores[self.count.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl HistoryStore for AlternatingStores {
    async fn oldest_queued(&self) -> Result<Option<UnixTime>, StoreError> {
        self.next().oldest_queued().await
    }

    fn ends_without_result(&self) -> EndsWithoutResult {
        let [one, other] = self.stores.each_ref().map(HistoryStore::ends_without_result);
        EndsWithoutResult {
            cancelled: one.cancelled + other.cancelled,
            system_errors: one.system_errors + other.system_errors,
        }
    }

    async fn put_figures(&self, figures: Vec<WrittenFigures>) -> Result<(), StoreError> {
        self.next().put_figures(figures).await
    }

    async fn figures(&self, minutes: Range<HistoryMinute>) -> Result<Vec<WrittenFigures>, StoreError> {
        self.next().figures(minutes).await
    }

    async fn remove_figures(&self, before: HistoryMinute) -> Result<(), StoreError> {
        self.next().remove_figures(before).await
    }
}

#[async_trait]
impl ProblemStore for AlternatingStores {
    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
        bounds: ProblemBounds,
    ) -> Result<JudgeProblem, StoreError> {
        self.next().put_problem(problem, editor, bounds).await
    }

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, StoreError> {
        self.next().problem(name).await
    }

    async fn problems(&self) -> Result<Vec<ProblemSummary>, StoreError> {
        self.next().problems().await
    }

    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, StoreError> {
        self.next().remove_problem(name, editor).await
    }
}

#[async_trait]
impl TaskStore for AlternatingStores {
    async fn add(&self, tasks: Vec<NewTaskRecord>) -> Result<Vec<AddedTask>, StoreError> {
        self.next().add(tasks).await
    }

    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.next().cancel(id).await
    }

    async fn cancel_many(&self, ids: Vec<TaskId>) -> Result<u64, StoreError> {
        self.next().cancel_many(ids).await
    }

    async fn group(&self, key: GroupKey) -> Result<Option<GroupState>, StoreError> {
        self.next().group(key).await
    }

    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, StoreError> {
        self.next().groups(query).await
    }

    fn newer_form(&self) -> Option<TaskForm> {
        self.next().newer_form()
    }

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.next().get(id).await
    }

    async fn get_after_event(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.next().get_after_event(id).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, StoreError> {
        self.next().search(query).await
    }

    async fn queued_before(&self, place: QueuePlace) -> Result<QueuedBefore, StoreError> {
        self.next().queued_before(place).await
    }

    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, StoreError> {
        self.next().count(query).await
    }

    async fn totals(&self) -> Result<TaskTotals, StoreError> {
        self.next().totals().await
    }

    async fn report(&self, report: Report) -> Result<HandledReport, StoreError> {
        self.next().report(report).await
    }

    async fn newest_executor_form(&self) -> Result<Option<TaskForm>, StoreError> {
        self.next().newest_executor_form().await
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        self.next().executors().await
    }

    async fn live_sessions(&self) -> Result<Vec<ObservedSession>, StoreError> {
        self.next().live_sessions().await
    }

    async fn expire(&self, seen: ObservedSession) -> Result<Option<usize>, StoreError> {
        self.next().expire(seen).await
    }

    async fn set_drain(
        &self,
        executor: ExecutorName,
        drain: Option<ExecutorDrain>,
    ) -> Result<bool, StoreError> {
        self.next().set_drain(executor, drain).await
    }

    async fn age(&self) -> Result<StoreAge, StoreError> {
        self.next().age().await
    }

    async fn advance_age(&self, from: StoreAge, by: Duration) -> Result<StoreAge, StoreError> {
        self.next().advance_age(from, by).await
    }

    async fn remove_ended_executors(&self, gone_before: StoreAge) -> Result<usize, StoreError> {
        self.next().remove_ended_executors(gone_before).await
    }

    async fn apply_retention(
        &self,
        done_before: StoreAge,
        unused: StoreAge,
        limit: usize,
    ) -> Result<RetentionSummary, StoreError> {
        self.next().apply_retention(done_before, unused, limit).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.next().check().await
    }

    fn failures(&self) -> FailureWatch {
        self.next().failures()
    }

    fn incoming_folder(&self) -> PathBuf {
        self.next().incoming_folder()
    }

    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError> {
        self.next().put_blob(file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        self.next().has_blobs(hashes).await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobStream>, StoreError> {
        self.next().get_blob(hash).await
    }

    async fn get_blob_from(&self, hash: BlobHash, offset: u64) -> Result<Option<BlobStream>, StoreError> {
        self.next().get_blob_from(hash, offset).await
    }

    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobScanResult, StoreError> {
        self.next().scan_blobs(first_byte).await
    }

    async fn count_damaged_blobs(&self) -> Result<u64, StoreError> {
        self.next().count_damaged_blobs().await
    }

    fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.next().subscribe()
    }
}
