//! The calls that nodes make to a judicator.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::{
    AddTask, AddedTask, BlobHash, DrainReason, ExecutorName, ExecutorState, FollowRequest, GroupKey,
    GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem, JudicatorState, Language,
    OutputAnswer, OutputEvent, OutputRequest, Page, ProblemEditor, ProblemName, ProblemSummary, Report,
    ReportAnswer, SearchCursor, SessionId, Stats, Task, TaskCounts, TaskId, TaskQuery, TaskStatus, TaskWait,
    UnixTime, UserName,
};

use crate::{CallError, cut_range};

/// The bytes of a blob, in chunks, as nodes send them to a judicator and receive them from it.
pub type ByteStream = BoxStream<'static, Result<Bytes, CallError>>;
/// The status changes of one task, as a judicator streams them to a gateway.
pub type EventStream = BoxStream<'static, Result<TaskEvent, CallError>>;
/// Hints that a judicator streams to an executor when there is work. Each item only means "report now". A hint may be
/// lost, late or repeated; nothing depends on it.
pub type HintStream = BoxStream<'static, Result<(), CallError>>;

/// Ticks that a judicator streams to a gateway after tasks have changed, a few in a second. Each item only means "read
/// again". A tick may be lost or repeated; nothing depends on it.
pub type ChangeStream = BoxStream<'static, Result<(), CallError>>;

/// The states of a group, as a judicator streams them to a gateway: the current one, and later ones until it is done.
pub type GroupStateStream = BoxStream<'static, Result<GroupState, CallError>>;
/// The output of a task while it runs, as a judicator streams it to a gateway.
pub type OutputEventStream = BoxStream<'static, Result<OutputEvent, CallError>>;
/// A judicator's requests for output, as it streams them to an executor.
pub type OutputRequestStream = BoxStream<'static, Result<OutputRequest, CallError>>;
/// An executor's answers to a judicator's requests for output.
pub type OutputAnswerStream = BoxStream<'static, OutputAnswer>;

/// A local file whose content an executor puts as a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFileSource {
    /// The hash of the file's content. The caller has computed it from the file.
    pub hash: BlobHash,
    pub size: u64,
    pub path: PathBuf,
}

/// The answer of a judicator to a request to cancel all tasks that match a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelledTasks {
    pub cancelled: u64,
    /// The `after` of the next call. One call is bounded in time and tasks; `None` when it has examined all tasks.
    pub next: Option<SearchCursor>,
}

/// The answer of a judicator to a request to retry a group or the tasks that match a search: the new tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetriedTasks {
    pub ids: Vec<TaskId>,
    /// For the next call. One call is bounded in time and tasks; `None` when it has examined all tasks.
    pub next: Option<RetryProgress>,
}

/// How far a retry of many tasks has come at a judicator, for the call that continues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryProgress {
    /// Only tasks that were added before this time are retried, so not those that the retry itself adds.
    pub until: UnixTime,
    /// The last task that was examined.
    pub after: Option<SearchCursor>,
}

/// A change of a task's status, as a judicator streams it to a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEvent {
    pub id: TaskId,
    pub status: TaskStatus,
    pub executor: Option<ExecutorName>,
    pub time: UnixTime,
}

/// The answer of a judicator to the readiness check if it is ready: it can add and read tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// How many executors are connected. Without any, tasks wait.
    pub executors: u32,
}

/// All calls that gateways and executors make to a judicator, locally or over gRPC. Every call is safe to repeat.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Adds all tasks or none. Answers in the given order, when the tasks are durable.
    async fn add(&self, tasks: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError>;
    /// Cancels a task, unless it is done. Returns the task as it is afterwards.
    async fn cancel(&self, id: TaskId) -> Result<Task, CallError>;
    /// Cancels tasks that match the filters of the query and are not done. Its order and limit do not matter. A call
    /// that continues another has the `next` of that one as `after`.
    async fn cancel_matching(&self, query: TaskQuery) -> Result<CancelledTasks, CallError>;
    /// Adds a task that repeats a done one, under the new id, and returns it.
    async fn retry(&self, id: TaskId, new_id: TaskId) -> Result<Task, CallError>;
    /// Adds a task for each task of the group that is done, has not succeeded and was not retried yet. A call that
    /// continues another has the `next` of that one.
    async fn retry_group(
        &self,
        key: GroupKey,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError>;
    /// Like `retry_group`, for the tasks that match the filters of the query. Its order and limit do not matter.
    async fn retry_matching(
        &self,
        query: TaskQuery,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError>;
    /// Returns the state of the group at once, or with `wait` when all of its tasks are done or the wait is over.
    async fn group(&self, key: GroupKey, wait: Option<Duration>) -> Result<GroupState, CallError>;
    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, CallError>;
    /// Streams the current state of the group, and then changed ones, a few in a second, until all of its tasks are done.
    async fn group_events(&self, key: GroupKey) -> Result<GroupStateStream, CallError>;
    /// Streams the output of the task's current attempt, as far as its executor watches this judicator. The stream ends
    /// when the task is done. What it leaves out is in the result.
    async fn follow(&self, id: TaskId, request: FollowRequest) -> Result<OutputEventStream, CallError>;
    /// Returns the task at once, or with `wait` when it is done or the wait is over.
    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError>;
    /// Tells why the task has not begun to run, and its place in the queue. `TaskWait::not_known` if every judicator that
    /// answers has an older version.
    async fn waiting(&self, id: TaskId) -> Result<TaskWait, CallError>;
    async fn search(&self, query: TaskQuery) -> Result<Page, CallError>;
    /// How many tasks match the filters of the query, by status. Examines a limited number of tasks, the newest first.
    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, CallError>;
    /// Streams a tick after tasks have changed, until the judicator stops.
    async fn changes(&self) -> Result<ChangeStream, CallError>;
    async fn stats(&self) -> Result<Stats, CallError>;
    /// The figures of the last hour or day.
    async fn history(&self, span: HistorySpan) -> Result<History, CallError>;
    /// Checks readiness by a small write to the store and a read. Answers within about two seconds.
    async fn check(&self) -> Result<Readiness, CallError>;
    /// Streams the current status of the task, and then every change until it is done.
    async fn events(&self, id: TaskId) -> Result<EventStream, CallError>;
    /// Takes an executor's report: commits its results and hands out tasks.
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError>;
    /// Streams hints to an executor.
    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError>;
    /// Connects an executor that answers requests for the output of its tasks.
    async fn serve_output(
        &self,
        executor: ExecutorName,
        session: SessionId,
        answers: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError>;
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError>;
    /// Keeps the executor from getting new tasks until it is resumed, and returns its state. It ends those that it has. A
    /// second drain replaces the reason and the user.
    async fn drain(
        &self,
        executor: ExecutorName,
        reason: DrainReason,
        by: Option<UserName>,
    ) -> Result<ExecutorState, CallError>;
    /// Ends the drain of the executor, if it is drained, and returns its state.
    async fn resume(&self, executor: ExecutorName) -> Result<ExecutorState, CallError>;
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError>;
    /// The language table. Which executors have a language is part of their states.
    async fn languages(&self) -> Result<Vec<Language>, CallError>;
    /// Stores the problem, whose contents are blobs that exist, and returns it as it is stored. Replaces the one of the same
    /// name if the editor may change that (`CallError::NotOwner` otherwise).
    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
    ) -> Result<JudgeProblem, CallError>;
    /// `None` if there is no problem of this name.
    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, CallError>;
    /// All problems, by name.
    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError>;
    /// Removes the problem, and returns whether there was one. Tasks that name it keep their cases.
    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, CallError>;
    /// Stores the bytes under their hash, and refuses them if the hash is wrong. Returns the size of the blob. With an
    /// offset, the judicator keeps the bytes if the call is interrupted, and a later call may continue at the offset where
    /// this one has ended (`partial_blob`). Without one, an interrupted call leaves nothing.
    async fn put_blob(
        &self,
        hash: BlobHash,
        offset: Option<u64>,
        bytes: ByteStream,
    ) -> Result<u64, CallError>;
    /// How many bytes an interrupted `put_blob` has left at this judicator.
    async fn partial_blob(&self, hash: BlobHash) -> Result<u64, CallError>;
    /// Stores the content of a local file, and continues an interrupted call where it ended. There is no limit on the
    /// total time, only on the time without progress.
    async fn put_blob_file(&self, file: BlobFileSource) -> Result<(), CallError>;
    /// The size of each blob that exists; `None` for the others.
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError>;
    /// The bytes are verified: of a damaged blob, the stream fails before the last one.
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError>;
    /// The bytes of a blob in this range. They are not verified unless the range is the whole blob. The stream fails if the
    /// blob is shorter.
    async fn get_blob_range(&self, hash: BlobHash, range: Range<u64>) -> Result<ByteStream, CallError> {
        Ok(cut_range(self.get_blob(hash).await?, 0, range))
    }
}
