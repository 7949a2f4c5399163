//! The calls that nodes make to a judicator.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::{
    AddTask, AddedTask, BlobHash, ExecutorName, ExecutorState, JudicatorState, Page, Report, ReportAnswer,
    SessionId, Stats, Task, TaskId, TaskQuery, TaskStatus, UnixTime,
};

use crate::CallError;

/// The bytes of a blob, in chunks, as nodes send them to a judicator and receive them from it.
pub type ByteStream = BoxStream<'static, Result<Bytes, CallError>>;
/// The status changes of one task, as a judicator streams them to a gateway.
pub type EventStream = BoxStream<'static, Result<TaskEvent, CallError>>;
/// Hints that a judicator streams to an executor when there is work. Each item only means "report now". A hint may be
/// lost, late or repeated; nothing depends on it.
pub type HintStream = BoxStream<'static, Result<(), CallError>>;

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
    /// Returns the task at once, or with `wait` when it is done or the wait is over.
    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError>;
    async fn search(&self, query: TaskQuery) -> Result<Page, CallError>;
    async fn stats(&self) -> Result<Stats, CallError>;
    /// Checks readiness by a small write to the store and a read. Answers within about two seconds.
    async fn check(&self) -> Result<Readiness, CallError>;
    /// Streams the current status of the task, and then every change until it is done.
    async fn events(&self, id: TaskId) -> Result<EventStream, CallError>;
    /// Takes an executor's report: commits its results and hands out tasks.
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError>;
    /// Streams hints to an executor.
    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError>;
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError>;
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError>;
    /// Stores the bytes under their hash, and refuses them if the hash is wrong. Returns their number.
    async fn put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError>;
    /// The size of each blob that exists; `None` for the others.
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError>;
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError>;
}
