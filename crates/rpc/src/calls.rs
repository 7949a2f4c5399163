//! Every call there is.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::{
    Add, Added, BlobHash, ExecutorName, ExecutorState, JudicatorState, Moment, Page, Query, Report,
    ReportAnswer, SessionId, Stats, Status, Task, TaskId,
};

use crate::CallError;

pub type ByteStream = BoxStream<'static, Result<Bytes, CallError>>;
pub type EventStream = BoxStream<'static, Result<Event, CallError>>;
/// Each item says only "report now". It may be lost, late or doubled; nothing depends on one.
pub type HintStream = BoxStream<'static, Result<(), CallError>>;

/// A task's status has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: TaskId,
    pub status: Status,
    pub executor: Option<ExecutorName>,
    pub time: Moment,
}

/// A judicator that can take tasks and show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How many executors are connected. Without any, tasks wait.
    pub executors: u32,
}

/// All of these are safe to repeat.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Adds all or none. Answered when durable, in the order given.
    async fn add(&self, tasks: Vec<Add>) -> Result<Vec<Added>, CallError>;
    /// Cancels a task that is not done; a task that is done stays as it is. Answers the task as it then is.
    async fn cancel(&self, id: TaskId) -> Result<Task, CallError>;
    /// The task as it is; with a wait, once it is done or the wait is over.
    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError>;
    async fn search(&self, query: Query) -> Result<Page, CallError>;
    async fn stats(&self) -> Result<Stats, CallError>;
    /// Whether a task can be added and read now, tried on the store; answers within about two seconds.
    async fn check(&self) -> Result<Ready, CallError>;
    /// The task's present status, then every change until it is done.
    async fn events(&self, id: TaskId) -> Result<EventStream, CallError>;
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError>;
    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError>;
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError>;
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError>;
    /// Keeps the bytes under their hash, which must be theirs. Answers how many there were.
    async fn put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError>;
    /// The size of each blob that exists; `None` for the others.
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError>;
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError>;
}
