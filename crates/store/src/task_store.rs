//! The interface of a store. The tests in `contract` define what each method must do.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::{
    AddedTask, AttemptNumber, BlobHash, ExecutorDrain, ExecutorName, ExecutorState, GroupKey, GroupPage,
    GroupQuery, GroupState, Page, QueuePlace, QueuedBefore, Report, ReportAnswer, ReportSeq, SessionId,
    StatusCounts, StoreAge, Task, TaskCounts, TaskForm, TaskId, TaskQuery, TaskSpec, TaskStatus, UnixTime,
};
use supervise::FailureWatch;
use tokio::sync::broadcast;

use crate::{ChangeEvent, HistoryStore, ProblemStore, StoreError};

/// A task that a caller adds to a [`TaskStore`]. `digest` identifies the request: adding the same id with the same
/// digest again changes nothing.
#[derive(Clone, Debug)]
pub struct NewTaskRecord {
    pub id: TaskId,
    pub digest: [u8; 32],
    /// The digest that versions before `TaskForm::CURRENT` computed for the same request. A task that they added is
    /// recognised by it.
    pub legacy_digest: Option<[u8; 32]>,
    pub spec: TaskSpec,
}

/// What a [`TaskStore`] returns for an executor's report: the answer, and what it committed (for metrics and logs).
#[derive(Clone, Debug)]
pub struct HandledReport {
    pub answer: ReportAnswer,
    /// Results committed by this report.
    pub finished: Vec<FinishedAttempt>,
    /// When each task that this report claimed was added. Attempts that are handed out again do not count.
    pub claimed_add_times: Vec<UnixTime>,
}

/// An attempt (one run of a task by an executor) whose result the [`TaskStore`] has just committed.
#[derive(Clone, Copy, Debug)]
pub struct FinishedAttempt {
    pub task: TaskId,
    pub attempt: AttemptNumber,
    pub status: TaskStatus,
    /// When the attempt was handed out.
    pub start_time: UnixTime,
    pub finish_time: UnixTime,
}

/// A live session of an executor and the number of its last report, as the leading judicator observed them. `expire`
/// requires that they have not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSession {
    pub executor: ExecutorName,
    pub session: SessionId,
    pub seq: ReportSeq,
}

impl ObservedSession {
    /// The placeholder for the session of an executor whose row is unreadable. Reports are numbered from 1, so no real
    /// session is equal to it.
    pub(crate) fn unreadable(executor: ExecutorName) -> ObservedSession {
        ObservedSession {
            executor,
            session: SessionId(uuid::Uuid::nil()),
            seq: ReportSeq(0),
        }
    }

    /// The trouble that the tasks of the session record when it expires.
    pub(crate) fn expiry_trouble(&self) -> String {
        format!("executor {} stopped reporting", self.executor)
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        *self == ObservedSession::unreadable(self.executor.clone())
    }
}

/// How many old tasks and unused blobs one call of [`TaskStore::apply_retention`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionSummary {
    pub tasks: usize,
    pub blobs: usize,
    /// The call stopped at a limit, and another call may remove more.
    pub more: bool,
}

/// The numbers of tasks in a [`TaskStore`]: by status, and of those that executors hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTotals {
    pub counts: StatusCounts,
    pub held: u64,
}

/// A local file with the complete, verified content of a blob, which [`TaskStore::put_blob`] moves into the store.
#[derive(Debug)]
pub struct BlobFile {
    pub hash: BlobHash,
    pub size: u64,
    pub path: PathBuf,
}

/// The result of a [`TaskStore`]'s scan of the blobs whose hash begins with one byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobScanResult {
    /// Blobs that are not marked as damaged. The caller reads them to verify their bytes.
    pub intact: Vec<BlobHash>,
    /// Files without a blob, which the scan removed.
    pub orphans_removed: usize,
}

/// The bytes of a blob as a [`TaskStore`] reads them, in chunks.
pub type BlobStream = BoxStream<'static, Result<Bytes, StoreError>>;

/// The durable store of tasks, executors' sessions and blobs that a judicator uses, on SQLite or MongoDB. Each method
/// is one atomic operation.
#[async_trait]
pub trait TaskStore: HistoryStore + ProblemStore {
    /// Adds all tasks or none; they are durable when this returns. A task that exists with the same digest counts as
    /// added. A task that another one of these repeats (`TaskSpec::retry_of`) is marked as retried, and its group counts
    /// the new task in its place.
    async fn add(&self, tasks: Vec<NewTaskRecord>) -> Result<Vec<AddedTask>, StoreError>;

    /// Cancels the task unless it is done. Returns the task as it is afterwards.
    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError>;

    /// Cancels those of the tasks that exist and are not done, at most `MAX_CANCELLED_AT_ONCE`. Returns their number.
    async fn cancel_many(&self, ids: Vec<TaskId>) -> Result<u64, StoreError>;

    /// The state of the group, from counters that every transition keeps up to date. `None` if it has no tasks.
    async fn group(&self, key: GroupKey) -> Result<Option<GroupState>, StoreError>;

    /// Groups that have tasks, in the order of user and name.
    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, StoreError>;

    /// The newest form of tasks that a claim has met and that this program does not know, since the store was opened.
    fn newer_form(&self) -> Option<TaskForm>;

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError>;

    /// Like `get`, but the task is at least as new as every event that `subscribe` has sent. A store whose `get` may
    /// lag behind its events implements this with a stronger, more expensive read.
    async fn get_after_event(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.get(id).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, StoreError>;

    /// Counts the queued tasks without a requirement, and those with one of the place's queue keys, that a claim takes before
    /// a task in this place: those of a higher priority, and older ones of the same. The count is limited.
    async fn queued_before(&self, place: QueuePlace) -> Result<QueuedBefore, StoreError>;

    /// How many tasks match the filters of the query, by status. Examines a limited number of tasks, the newest first.
    /// Its order and page do not matter.
    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, StoreError>;

    async fn totals(&self) -> Result<TaskTotals, StoreError>;

    /// Applies the five steps of a report, in their order; durable when this returns.
    ///
    /// A completed attempt that is `Broken` is released as lost: after `max_attempts` losses the task ends as
    /// `system_error`. A `PlatformFailure` has its own counter, with the bound `MAX_PLATFORM_FAILURES`. An attempt that
    /// the report does not name is released without counting as a loss. The same is true of what the preceding session
    /// of the executor held: the new session's first report lists as `Broken` what had begun before the restart.
    ///
    /// A result whose blobs are not all in the store is not committed; the answer lists it under `upload_again`. The blobs
    /// of a committed result belong to the task, like those of its spec. A task of a form that this program does not know
    /// is neither claimed nor ended, and no executor gets a task of a form that it does not know.
    ///
    /// The size of an answer is bounded, so it may assign fewer than `vacant` tasks even if more are queued. The next
    /// report gets the rest.
    async fn report(&self, report: Report) -> Result<HandledReport, StoreError>;

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError>;

    /// The newest form of tasks that any live executor knows, as each has reported it last. `None` if there are none, or if
    /// one of them has not reported it to a node of this version.
    async fn newest_executor_form(&self) -> Result<Option<TaskForm>, StoreError>;

    /// Drains the executor, or resumes it. A report that is answered after this returned claims no task for a drained
    /// executor; its answer says so. If the executor is drained already, the reason and the user are replaced, not the time.
    /// The drain outlives sessions, and a drained executor is not removed. Returns whether the executor exists.
    async fn set_drain(
        &self,
        executor: ExecutorName,
        drain: Option<ExecutorDrain>,
    ) -> Result<bool, StoreError>;

    /// Includes each executor whose row is unreadable, as a session whose number never changes. `expire` replaces
    /// such a row by a readable one and releases the executor's tasks. Until then the store refuses the executor's
    /// reports.
    async fn live_sessions(&self) -> Result<Vec<ObservedSession>, StoreError>;

    /// Ends the session and releases its tasks as lost, if it is live and its last report is still the observed one.
    /// Returns the number of released tasks, or `None` if the session has changed.
    async fn expire(&self, observed: ObservedSession) -> Result<Option<usize>, StoreError>;

    /// The current age of the store. The store stamps it on each task when it is done, each blob when it is used, and
    /// each session when it ends. Retention compares only these stamps and no wall-clock time.
    async fn age(&self) -> Result<StoreAge, StoreError>;

    /// Advances the age by the duration that a leader has measured, if the age is still `from`. So if two nodes believe
    /// that they lead, the time counts once. Returns the resulting age.
    async fn advance_age(&self, from: StoreAge, by: Duration) -> Result<StoreAge, StoreError>;

    /// Removes executors that are not drained and whose last session ended before the store had this age. Returns their number.
    async fn remove_ended_executors(&self, ended_before: StoreAge) -> Result<usize, StoreError>;

    /// Removes tasks that were done before `done_before`, and blobs that no task uses and no caller has put or asked
    /// for since `unused_since`. Removes at most `limit` of each, and fewer if the tasks refer to many blobs, so that other
    /// operations do not wait long.
    async fn apply_retention(
        &self,
        done_before: StoreAge,
        unused_since: StoreAge,
        limit: usize,
    ) -> Result<RetentionSummary, StoreError>;

    /// The folder for blobs that are being received. It is on the store's file system, so that `put_blob` can rename.
    fn incoming_folder(&self) -> PathBuf;

    /// Moves the file into the store as a blob; durable when this returns. It replaces the bytes of an existing blob,
    /// which repairs a damaged one.
    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError>;

    /// Returns the size of each blob, or `None` if it does not exist or is damaged. Asking counts as a use, so
    /// retention leaves the caller time to add a task with these blobs.
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError>;

    /// The stream verifies the bytes against the hash. For a damaged blob it ends with [`StoreError::DamagedBlob`]
    /// before the last chunk, and the store marks the blob as damaged.
    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobStream>, StoreError>;

    /// The bytes from this offset on; none if the blob is not longer. They are not verified, because only the whole blob has
    /// a hash. A blob that is marked as damaged is refused.
    async fn get_blob_from(&self, hash: BlobHash, offset: u64) -> Result<Option<BlobStream>, StoreError>;

    /// Checks that the store works: writes a small value durably and reads it back.
    async fn check(&self) -> Result<(), StoreError>;

    /// Reports the failure of a component of the store. After one the store is unusable.
    fn failures(&self) -> FailureWatch;

    /// Lists the blobs whose hash begins with this byte, and removes files without a blob, which a crash can leave.
    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobScanResult, StoreError>;

    /// The number of blobs that are marked as damaged. Putting a blob again clears its mark.
    async fn count_damaged_blobs(&self) -> Result<u64, StoreError>;

    /// Subscribes to all later changes, in commit order. A receiver that lags behind loses events and must read the
    /// state instead.
    fn subscribe(&self) -> broadcast::Receiver<ChangeEvent>;
}
