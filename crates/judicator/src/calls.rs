//! The calls of a judicator, one file for each.

mod add;
mod blobs;
mod cancel;
mod cancel_matching;
mod check;
mod drain;
mod events;
mod follow;
mod get;
mod groups;
mod history;
mod nodes;
mod problems;
mod report;
mod retry;
mod retry_many;
mod search;
mod waiting;

pub(crate) use check::ReadinessChecks;

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    AddTask, AddedTask, BlobHash, DrainReason, ExecutorName, ExecutorState, FollowRequest, GroupKey,
    GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem, JudicatorState, Language, Page,
    ProblemEditor, ProblemName, ProblemSummary, Report, ReportAnswer, SessionId, Stats, Task, TaskCounts,
    TaskId, TaskQuery, TaskWait, UserName,
};
use rpc::{
    BlobFileSource, ByteStream, CallError, Calls, CancelledTasks, ChangeStream, EventStream,
    GroupStateStream, HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness,
    RetriedTasks, RetryProgress, cut_range,
};

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

    async fn cancel_matching(&self, query: TaskQuery) -> Result<CancelledTasks, CallError> {
        self.on_cancel_matching(query).await
    }

    async fn retry(&self, id: TaskId, new_id: TaskId) -> Result<Task, CallError> {
        self.on_retry(id, new_id).await
    }

    async fn retry_group(
        &self,
        key: GroupKey,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        self.on_retry_group(key, continues).await
    }

    async fn retry_matching(
        &self,
        query: TaskQuery,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        self.on_retry_matching(query, continues).await
    }

    async fn group(&self, key: GroupKey, wait: Option<Duration>) -> Result<GroupState, CallError> {
        self.on_group(key, wait).await
    }

    async fn groups(&self, query: GroupQuery) -> Result<GroupPage, CallError> {
        self.on_groups(query).await
    }

    async fn group_events(&self, key: GroupKey) -> Result<GroupStateStream, CallError> {
        self.on_group_events(key).await
    }

    async fn follow(&self, id: TaskId, request: FollowRequest) -> Result<OutputEventStream, CallError> {
        self.on_follow(id, request).await
    }

    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        self.on_get(id, wait).await
    }

    async fn waiting(&self, id: TaskId) -> Result<TaskWait, CallError> {
        self.on_waiting(id).await
    }

    async fn search(&self, query: TaskQuery) -> Result<Page, CallError> {
        self.on_search(query).await
    }

    async fn count(&self, query: TaskQuery) -> Result<TaskCounts, CallError> {
        self.on_count(query).await
    }

    async fn changes(&self) -> Result<ChangeStream, CallError> {
        Ok(self.change_ticks.stream())
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        self.on_stats().await
    }

    async fn history(&self, span: HistorySpan) -> Result<History, CallError> {
        self.on_history(span).await
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

    async fn serve_output(
        &self,
        executor: ExecutorName,
        session: SessionId,
        answers: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        Ok(self.live_output.connect(executor, session, answers))
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        self.store.executors().await.map_err(call_error)
    }

    async fn drain(
        &self,
        executor: ExecutorName,
        reason: DrainReason,
        by: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        self.on_drain(executor, reason, by).await
    }

    async fn resume(&self, executor: ExecutorName) -> Result<ExecutorState, CallError> {
        self.on_resume(executor).await
    }

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        self.on_judicators().await
    }

    async fn languages(&self) -> Result<Vec<Language>, CallError> {
        Ok(self.options.languages.rows().to_vec())
    }

    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
    ) -> Result<JudgeProblem, CallError> {
        self.on_put_problem(problem, editor).await
    }

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
        self.store.problem(name).await.map_err(call_error)
    }

    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError> {
        self.store.problems().await.map_err(call_error)
    }

    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, CallError> {
        let removed = self.store.remove_problem(name, editor).await;
        removed.map_err(call_error)
    }

    async fn put_blob(
        &self,
        hash: BlobHash,
        offset: Option<u64>,
        bytes: ByteStream,
    ) -> Result<u64, CallError> {
        self.on_put_blob(hash, offset, bytes).await
    }

    async fn partial_blob(&self, hash: BlobHash) -> Result<u64, CallError> {
        self.on_partial_blob(hash).await
    }

    async fn put_blob_file(&self, file: BlobFileSource) -> Result<(), CallError> {
        self.on_put_blob_file(file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        self.store.has_blobs(hashes).await.map_err(call_error)
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        self.on_get_blob(hash, 0).await
    }

    async fn get_blob_range(&self, hash: BlobHash, range: Range<u64>) -> Result<ByteStream, CallError> {
        let bytes = self.on_get_blob(hash, range.start).await?;
        Ok(cut_range(bytes, range.start, range))
    }
}
