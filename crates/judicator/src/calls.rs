//! The calls of a judicator, one file for each.

mod add;
mod blobs;
mod cancel;
mod check;
mod events;
mod get;
mod nodes;
mod report;

pub(crate) use check::ReadinessChecks;

use std::time::Duration;

use async_trait::async_trait;
use model::{
    AddTask, AddedTask, BlobHash, ExecutorName, ExecutorState, JudicatorState, Page, Report, ReportAnswer,
    SessionId, Stats, Task, TaskId, TaskQuery,
};
use rpc::{ByteStream, CallError, Calls, EventStream, HintStream, Readiness};

use crate::Judicator;
use crate::error::call_error;

#[async_trait]
impl Calls for Judicator {
    async fn add(&self, tasks: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        self.on_add(tasks).await
    }

    async fn cancel(&self, id: TaskId) -> Result<Task, CallError> {
        self.on_cancel(id).await
    }

    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        self.on_get(id, wait).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, CallError> {
        query.check().map_err(CallError::Invalid)?;
        self.store.search(query).await.map_err(call_error)
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        self.on_stats().await
    }

    async fn check(&self) -> Result<Readiness, CallError> {
        self.on_check().await
    }

    async fn events(&self, id: TaskId) -> Result<EventStream, CallError> {
        self.on_events(id).await
    }

    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        self.on_report(report).await
    }

    async fn watch(&self, executor: ExecutorName, session: SessionId) -> Result<HintStream, CallError> {
        Ok(self.hints.watch(executor, session))
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        self.store.executors().await.map_err(call_error)
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        self.on_judicators().await
    }

    async fn put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        self.on_put_blob(hash, bytes).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        self.store.has_blobs(hashes).await.map_err(call_error)
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        self.on_get_blob(hash).await
    }
}
