//! A judicator for tests: one task, blobs, and streams whose items the test sends.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use metrics_exporter_prometheus::PrometheusBuilder;
use model::{
    AddTask, AddedTask, BlobHash, DrainReason, ExecutorName, ExecutorState, FollowRequest, GroupKey,
    GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem, JudicatorState, Language,
    OutputEvent, Page, ProblemEditor, ProblemName, ProblemSummary, Report, ReportAnswer, SessionId, Stats,
    StepCommand, Task, TaskCounts, TaskId, TaskQuery, TaskResult, TaskSpec, TaskStatus, TaskWait, UnixTime,
    UserName,
};
use rpc::{
    BlobFileSource, ByteStream, CallError, Calls, CancelledTasks, ChangeStream, EventStream,
    GroupStateStream, HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness,
    RetriedTasks, RetryProgress, TaskEvent,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::GatewayOptions;
use crate::gateway::Gateway;
use crate::quota_key::QuotaKey;
use crate::request_quota::RequestQuota;

/// The size of the chunks in which the fake judicator sends blobs.
const CHUNK: usize = 64 << 10;

/// A judicator for tests of the gateway. Calls that no test needs fail as unavailable.
#[derive(Default)]
pub(crate) struct FakeCalls {
    blobs: Mutex<HashMap<BlobHash, Bytes>>,
    pub(crate) task: Mutex<Option<Task>>,
    /// The answer to `waiting`.
    pub(crate) wait: Mutex<Option<TaskWait>>,
    statuses: Mutex<VecDeque<mpsc::UnboundedReceiver<Result<TaskEvent, CallError>>>>,
    outputs: Mutex<VecDeque<mpsc::UnboundedReceiver<Result<OutputEvent, CallError>>>>,
    pub(crate) follow_requests: Mutex<Vec<FollowRequest>>,
    /// The answers to `cancel_matching`, and its queries.
    pub(crate) cancel_answers: Mutex<VecDeque<CancelledTasks>>,
    pub(crate) cancel_queries: Mutex<Vec<TaskQuery>>,
    /// The answers to `retry_group` and `retry_matching`; after them they fail.
    pub(crate) retry_answers: Mutex<VecDeque<RetriedTasks>>,
    /// The queries of `retry_matching`.
    pub(crate) retry_queries: Mutex<Vec<TaskQuery>>,
    /// The answers to `search`; after them it fails.
    pub(crate) pages: Mutex<VecDeque<Page>>,
    /// The answer to `problem`, which `put_problem` sets.
    pub(crate) problem: Mutex<Option<JudgeProblem>>,
}

/// The test's end of a stream of the fake judicator. Dropping it ends the stream.
pub(crate) type FakeStream<T> = mpsc::UnboundedSender<Result<T, CallError>>;

impl FakeCalls {
    pub(crate) fn put(&self, content: &[u8]) -> BlobHash {
        let hash = BlobHash::of(content);
        let content = Bytes::copy_from_slice(content);
        self.blobs.lock().unwrap().insert(hash, content);
        hash
    }

    /// The stream of the next call of `events`.
    pub(crate) fn next_statuses(&self) -> FakeStream<TaskEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.statuses.lock().unwrap().push_back(receiver);
        sender
    }

    /// The stream of the next call of `follow`.
    pub(crate) fn next_output(&self) -> FakeStream<OutputEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.outputs.lock().unwrap().push_back(receiver);
        sender
    }

    /// Sets what `get` returns.
    pub(crate) fn set_task(&self, status: TaskStatus, attempt: u32, result: Option<TaskResult>) {
        let task = Task {
            status,
            attempt: model::AttemptNumber(attempt),
            result,
            ..task()
        };
        *self.task.lock().unwrap() = Some(task);
    }

    /// Has an executor hold the task.
    pub(crate) fn set_executor(&self, name: &str) {
        let mut task = self.task.lock().unwrap();
        task.as_mut().unwrap().executor = Some(model::ExecutorName::new(name).unwrap());
    }
}

/// A task that waits for its first attempt.
pub(crate) fn task() -> Task {
    let user = UserName::new("ada").unwrap();
    Task {
        id: task_id(),
        spec: TaskSpec::new(user, StepCommand::Shell("true".into())),
        status: TaskStatus::Pending,
        executor: None,
        session: None,
        attempt: model::AttemptNumber(0),
        add_time: UnixTime(1),
        start_time: None,
        report_time: None,
        finish_time: None,
        ran_on: vec![],
        result: None,
        trouble: None,
    }
}

pub(crate) fn task_id() -> TaskId {
    TaskId(uuid::Uuid::from_u128(7))
}

/// A gateway that calls the fake judicator, and the quota of a request to it.
pub(crate) fn gateway(calls: Arc<FakeCalls>) -> (Arc<Gateway>, RequestQuota) {
    let gateway = gateway_with(calls, GatewayOptions::default());
    let key = QuotaKey::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let permit = gateway.requests.acquire(&key, 1).unwrap();
    let quota = RequestQuota::new(key, permit, gateway.bytes.clone());
    (gateway, quota)
}

pub(crate) fn gateway_with(calls: Arc<FakeCalls>, options: GatewayOptions) -> Arc<Gateway> {
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    Gateway::new(options, calls, metrics, CancellationToken::new())
}

fn unavailable<T>() -> Result<T, CallError> {
    Err(CallError::Unavailable(
        "the fake judicator has no such call".into(),
    ))
}

fn from_test<T: Send + 'static>(
    queue: &Mutex<VecDeque<mpsc::UnboundedReceiver<Result<T, CallError>>>>,
) -> stream::BoxStream<'static, Result<T, CallError>> {
    match queue.lock().unwrap().pop_front() {
        Some(mut items) => stream::poll_fn(move |context| items.poll_recv(context)).boxed(),
        None => stream::pending().boxed(),
    }
}

#[async_trait]
impl Calls for FakeCalls {
    async fn add(&self, _: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        unavailable()
    }
    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unavailable()
    }
    async fn cancel_matching(&self, query: TaskQuery) -> Result<CancelledTasks, CallError> {
        self.cancel_queries.lock().unwrap().push(query);
        self.cancel_answers
            .lock()
            .unwrap()
            .pop_front()
            .map_or_else(unavailable, Ok)
    }
    async fn retry(&self, _: TaskId, _: TaskId) -> Result<Task, CallError> {
        unavailable()
    }
    async fn retry_group(&self, _: GroupKey, _: Option<RetryProgress>) -> Result<RetriedTasks, CallError> {
        let answer = self.retry_answers.lock().unwrap().pop_front();
        answer.map_or_else(unavailable, Ok)
    }
    async fn retry_matching(
        &self,
        query: TaskQuery,
        _: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        self.retry_queries.lock().unwrap().push(query);
        let answer = self.retry_answers.lock().unwrap().pop_front();
        answer.map_or_else(unavailable, Ok)
    }
    async fn count(&self, _: TaskQuery) -> Result<TaskCounts, CallError> {
        unavailable()
    }
    async fn changes(&self) -> Result<ChangeStream, CallError> {
        unavailable()
    }
    async fn group(&self, _: GroupKey, _: Option<Duration>) -> Result<GroupState, CallError> {
        unavailable()
    }
    async fn groups(&self, _: GroupQuery) -> Result<GroupPage, CallError> {
        unavailable()
    }
    async fn group_events(&self, _: GroupKey) -> Result<GroupStateStream, CallError> {
        unavailable()
    }
    async fn follow(&self, _: TaskId, request: FollowRequest) -> Result<OutputEventStream, CallError> {
        self.follow_requests.lock().unwrap().push(request);
        Ok(from_test(&self.outputs))
    }
    async fn get(&self, id: TaskId, _: Option<Duration>) -> Result<Task, CallError> {
        self.task.lock().unwrap().clone().ok_or(CallError::NoTask(id))
    }
    async fn waiting(&self, _: TaskId) -> Result<TaskWait, CallError> {
        self.wait.lock().unwrap().clone().map_or_else(unavailable, Ok)
    }
    async fn search(&self, _: TaskQuery) -> Result<Page, CallError> {
        let page = self.pages.lock().unwrap().pop_front();
        page.map_or_else(unavailable, Ok)
    }
    async fn stats(&self) -> Result<Stats, CallError> {
        unavailable()
    }
    async fn history(&self, _: HistorySpan) -> Result<History, CallError> {
        unavailable()
    }
    async fn check(&self) -> Result<Readiness, CallError> {
        unavailable()
    }
    async fn events(&self, _: TaskId) -> Result<EventStream, CallError> {
        Ok(from_test(&self.statuses))
    }
    async fn report(&self, _: Report) -> Result<ReportAnswer, CallError> {
        unavailable()
    }
    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        unavailable()
    }
    async fn serve_output(
        &self,
        _: ExecutorName,
        _: SessionId,
        _: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        unavailable()
    }
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        unavailable()
    }
    async fn drain(
        &self,
        _: ExecutorName,
        _: DrainReason,
        _: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        unavailable()
    }
    async fn resume(&self, _: ExecutorName) -> Result<ExecutorState, CallError> {
        unavailable()
    }
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unavailable()
    }
    async fn languages(&self) -> Result<Vec<Language>, CallError> {
        unavailable()
    }
    async fn put_problem(&self, problem: JudgeProblem, _: ProblemEditor) -> Result<JudgeProblem, CallError> {
        *self.problem.lock().unwrap() = Some(problem.clone());
        Ok(problem)
    }
    async fn problem(&self, _: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
        Ok(self.problem.lock().unwrap().clone())
    }
    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError> {
        unavailable()
    }
    async fn remove_problem(&self, _: ProblemName, _: ProblemEditor) -> Result<bool, CallError> {
        unavailable()
    }
    async fn put_blob(&self, _: BlobHash, _: Option<u64>, bytes: ByteStream) -> Result<u64, CallError> {
        let chunks: Vec<Bytes> = bytes.try_collect().await?;
        let content = chunks.concat();
        self.put(&content);
        Ok(content.len() as u64)
    }
    async fn partial_blob(&self, _: BlobHash) -> Result<u64, CallError> {
        unavailable()
    }
    async fn put_blob_file(&self, _: BlobFileSource) -> Result<(), CallError> {
        unavailable()
    }
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        let blobs = self.blobs.lock().unwrap();
        let size = |hash| blobs.get(&hash).map(|blob| blob.len() as u64);
        Ok(hashes.into_iter().map(size).collect())
    }
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        let blob = self.blobs.lock().unwrap().get(&hash).cloned();
        let bytes = blob.ok_or(CallError::NoBlob(hash))?;
        let starts: Vec<_> = (0..bytes.len()).step_by(CHUNK).collect();
        let chunk = move |start| Ok(bytes.slice(start..bytes.len().min(start + CHUNK)));
        Ok(stream::iter(starts).map(chunk).boxed())
    }
}
