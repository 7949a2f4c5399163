//! Real servers in this process, over fake judicators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use model::{
    AddTask, AddedTask, BlobHash, DrainReason, ExecutorName, ExecutorState, FollowRequest, GroupKey,
    GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem, JudicatorState, Language,
    OutputEvent, Page, ProblemEditor, ProblemName, ProblemSummary, Report, ReportAnswer, SessionId, Stats,
    StatusCounts, Task, TaskCounts, TaskId, TaskQuery, TaskWait, UserName,
};
use rpc::{
    BlobFileSource, ByteStream, CallError, Calls, CancelledTasks, ChangeStream, ClusterSecret, EventStream,
    GroupStateStream, HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness,
    RetriedTasks, RetryProgress, RpcClient, serve,
};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// A fake judicator for tests of RPC failover, which answers a few calls or fails them with its fault. It answers
/// `stats`, `check`, `put_blob`, `get_blob` and `follow`.
#[derive(Default)]
pub(crate) struct FaultyJudicator {
    pub(crate) fault: watch::Sender<Option<CallError>>,
    stats: AtomicU32,
    pub(crate) checks: AtomicU32,
    /// The bytes of endless blobs that it has produced.
    pub(crate) produced: Arc<AtomicU32>,
    /// Calls of `follow`, which the test answers.
    follows: watch::Sender<Option<mpsc::UnboundedSender<FollowCall>>>,
}

/// A call of `follow` that has arrived at a fake judicator. The test sends the events; dropping the sender ends the stream.
pub(crate) struct FollowCall {
    pub(crate) request: FollowRequest,
    pub(crate) events: mpsc::UnboundedSender<Result<OutputEvent, CallError>>,
}

pub(crate) const ENDLESS: BlobHash = BlobHash([9; 32]);
static CHUNK: [u8; 64 << 10] = [7; 64 << 10];

impl FaultyJudicator {
    fn answer<T>(&self, answer: T) -> Result<T, CallError> {
        match &*self.fault.borrow() {
            Some(fault) => Err(fault.clone()),
            None => Ok(answer),
        }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.stats.load(Ordering::SeqCst)
    }

    /// The calls of `follow` that arrive from now on.
    pub(crate) fn take_follows(&self) -> mpsc::UnboundedReceiver<FollowCall> {
        let (sender, follows) = mpsc::unbounded_channel();
        self.follows.send_replace(Some(sender));
        follows
    }
}

fn unused<T>() -> Result<T, CallError> {
    Err(CallError::Internal("not used by this test".into()))
}

#[async_trait]
impl Calls for FaultyJudicator {
    async fn stats(&self) -> Result<Stats, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        self.answer(Stats {
            counts: StatusCounts::new(),
            executors: 1,
            slots: 1,
            held: 0,
            tasks_per_second: 0.0,
            window: Duration::from_secs(1),
            oldest_queued: None,
        })
    }
    async fn history(&self, _: HistorySpan) -> Result<History, CallError> {
        unused()
    }
    async fn check(&self) -> Result<Readiness, CallError> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        self.answer(Readiness { executors: 1 })
    }
    async fn put_blob(&self, _: BlobHash, _: Option<u64>, bytes: ByteStream) -> Result<u64, CallError> {
        let parts: Vec<_> = bytes.collect().await;
        let sizes = parts.into_iter().map(|part| part.map(|part| part.len() as u64));
        let size = sizes.sum::<Result<u64, _>>()?;
        self.answer(size)
    }
    async fn put_problem(&self, _: JudgeProblem, _: ProblemEditor) -> Result<JudgeProblem, CallError> {
        unused()
    }
    async fn problem(&self, _: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
        unused()
    }
    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError> {
        unused()
    }
    async fn remove_problem(&self, _: ProblemName, _: ProblemEditor) -> Result<bool, CallError> {
        unused()
    }
    async fn add(&self, _: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        unused()
    }
    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unused()
    }
    async fn cancel_matching(&self, _: TaskQuery) -> Result<CancelledTasks, CallError> {
        unused()
    }
    async fn retry(&self, _: TaskId, _: TaskId) -> Result<Task, CallError> {
        unused()
    }
    async fn retry_group(&self, _: GroupKey, _: Option<RetryProgress>) -> Result<RetriedTasks, CallError> {
        unused()
    }
    async fn retry_matching(
        &self,
        _: TaskQuery,
        _: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        unused()
    }
    async fn count(&self, _: TaskQuery) -> Result<TaskCounts, CallError> {
        unused()
    }
    async fn changes(&self) -> Result<ChangeStream, CallError> {
        unused()
    }
    async fn group(&self, _: GroupKey, _: Option<Duration>) -> Result<GroupState, CallError> {
        unused()
    }
    async fn groups(&self, _: GroupQuery) -> Result<GroupPage, CallError> {
        unused()
    }
    async fn group_events(&self, _: GroupKey) -> Result<GroupStateStream, CallError> {
        unused()
    }
    async fn follow(&self, _: TaskId, request: FollowRequest) -> Result<OutputEventStream, CallError> {
        let (events, mut receiver) = mpsc::unbounded_channel();
        if let Some(follows) = &*self.follows.borrow() {
            let _ = follows.send(FollowCall { request, events });
        }
        let events = stream::poll_fn(move |context| receiver.poll_recv(context));
        self.answer(events.boxed())
    }
    async fn serve_output(
        &self,
        _: ExecutorName,
        _: SessionId,
        _: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        unused()
    }
    async fn partial_blob(&self, _: BlobHash) -> Result<u64, CallError> {
        unused()
    }
    async fn put_blob_file(&self, _: BlobFileSource) -> Result<(), CallError> {
        unused()
    }
    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(wait.unwrap_or_default()).await;
        Err(CallError::NoTask(id))
    }
    async fn waiting(&self, id: TaskId) -> Result<TaskWait, CallError> {
        Err(CallError::NoTask(id))
    }
    async fn search(&self, _: TaskQuery) -> Result<Page, CallError> {
        unused()
    }
    async fn events(&self, _: TaskId) -> Result<EventStream, CallError> {
        unused()
    }
    async fn report(&self, _: Report) -> Result<ReportAnswer, CallError> {
        unused()
    }
    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        unused()
    }
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        unused()
    }
    async fn drain(
        &self,
        _: ExecutorName,
        _: DrainReason,
        _: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        unused()
    }
    async fn resume(&self, _: ExecutorName) -> Result<ExecutorState, CallError> {
        unused()
    }
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unused()
    }
    async fn languages(&self) -> Result<Vec<Language>, CallError> {
        unused()
    }
    async fn has_blobs(&self, _: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        unused()
    }
    /// The stream begins well. The fault appears after the first byte.
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        if hash == ENDLESS {
            let produced = self.produced.clone();
            let part = move || {
                produced.fetch_add(CHUNK.len() as u32, Ordering::SeqCst);
                Ok(Bytes::from_static(&CHUNK))
            };
            return Ok(stream::repeat_with(part).boxed());
        }
        let bytes = [
            Ok(Bytes::from_static(b"1")),
            self.answer(Bytes::from_static(b"2")),
        ];
        Ok(stream::iter(bytes).boxed())
    }
}

pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub(crate) async fn start(secret: Option<ClusterSecret>) -> (Arc<FaultyJudicator>, String) {
    let (listener, address) = listen().await;
    let judicator = Arc::new(FaultyJudicator::default());
    tokio::spawn(serve(
        listener,
        judicator.clone(),
        secret,
        CancellationToken::new(),
    ));
    (judicator, address)
}

/// A gRPC server without any of the calls, like a judicator of another version that does not know a call.
pub(crate) async fn start_without_calls() -> String {
    let (listener, address) = listen().await;
    let server = Server::builder().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

pub(crate) fn client(addresses: &[&str], secret: Option<ClusterSecret>) -> RpcClient {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    RpcClient::new(watch::channel(addresses).1, secret)
}
