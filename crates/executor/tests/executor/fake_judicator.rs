//! A judicator that hands out what a test gives it, and through which the test asks for output.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{
    AddTask, AddedTask, Assignment, AttemptId, BlobHash, DrainReason, ExecutorName, ExecutorState,
    FollowRequest, GroupKey, GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem,
    JudicatorState, Language, OutputRequest, Page, ProblemEditor, ProblemName, ProblemSummary, Report,
    ReportAnswer, ReportInstructions, ReportSeq, SessionId, Stats, Task, TaskCounts, TaskId, TaskQuery,
    TaskWait, UserName,
};
use rpc::{
    BlobFileSource, ByteStream, CallError, Calls, CancelledTasks, ChangeStream, EventStream,
    GroupStateStream, HintStream, OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness,
    RetriedTasks, RetryProgress,
};
use tokio::sync::mpsc;

/// A fake judicator for tests of a whole executor.
pub(crate) struct FakeTestJudicator {
    state: Mutex<FakeJudicatorState>,
    reports: mpsc::UnboundedSender<Report>,
    connections: mpsc::UnboundedSender<FakeOutputConnection>,
}

/// What a [`FakeTestJudicator`] will answer.
#[derive(Default)]
struct FakeJudicatorState {
    last_report: ReportSeq,
    /// For the next answer.
    instructions: ReportInstructions,
    acknowledges_results: bool,
    is_unreachable: bool,
    uploaded: HashMap<BlobHash, Vec<u8>>,
}

/// The judicator's end of a connection on which the executor serves output.
pub(crate) struct FakeOutputConnection {
    pub(crate) session: SessionId,
    pub(crate) requests: mpsc::UnboundedSender<OutputRequest>,
    pub(crate) answers: OutputAnswerStream,
}

impl FakeTestJudicator {
    pub(crate) fn new(
        reports: mpsc::UnboundedSender<Report>,
        connections: mpsc::UnboundedSender<FakeOutputConnection>,
    ) -> FakeTestJudicator {
        FakeTestJudicator {
            state: Mutex::default(),
            reports,
            connections,
        }
    }

    /// Hands out the attempt in the next answer. Returns the first report after the executor has handled that answer.
    pub(crate) fn assign(&self, assignment: Assignment) -> ReportSeq {
        let mut state = self.state();
        state.instructions.assign.push(assignment);
        state.last_report.next().next()
    }

    /// Takes the attempt away in the next answer.
    pub(crate) fn revoke(&self, attempt_id: AttemptId) {
        self.state().instructions.delete.push(attempt_id);
    }

    /// Whether reports get an answer from now on.
    pub(crate) fn set_reachable(&self, reachable: bool) {
        self.state().is_unreachable = !reachable;
    }

    /// Acknowledges results from now on.
    pub(crate) fn acknowledge_results(&self) {
        self.state().acknowledges_results = true;
    }

    /// The content of a blob that the executor has uploaded.
    pub(crate) fn uploaded(&self, hash: &BlobHash) -> Option<Vec<u8>> {
        self.state().uploaded.get(hash).cloned()
    }

    fn state(&self) -> MutexGuard<'_, FakeJudicatorState> {
        self.state.lock().unwrap()
    }
}

#[async_trait]
impl Calls for FakeTestJudicator {
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let mut state = self.state();
        if state.is_unreachable {
            return Err(CallError::Unavailable("no network".into()));
        }
        state.last_report = report.seq;
        let mut answer = std::mem::take(&mut state.instructions);
        if state.acknowledges_results {
            let complete = report.complete.iter().map(|one| one.attempt_id);
            answer.delete.extend(complete);
        }
        drop(state);
        let _ = self.reports.send(report);
        Ok(ReportAnswer::Done(answer))
    }

    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn serve_output(
        &self,
        _: ExecutorName,
        session: SessionId,
        answers: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        let (requests, mut receiver) = mpsc::unbounded_channel();
        let _ = self.connections.send(FakeOutputConnection {
            session,
            requests,
            answers,
        });
        let requests = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
        Ok(requests.map(Ok).boxed())
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        Ok(vec![None; hashes.len()])
    }

    async fn put_blob_file(&self, file: BlobFileSource) -> Result<(), CallError> {
        let content = std::fs::read(file.path).unwrap();
        self.state().uploaded.insert(file.hash, content);
        Ok(())
    }

    async fn add(&self, _: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        unreachable!()
    }

    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn cancel_matching(&self, _: TaskQuery) -> Result<CancelledTasks, CallError> {
        unreachable!()
    }

    async fn retry(&self, _: TaskId, _: TaskId) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn retry_group(&self, _: GroupKey, _: Option<RetryProgress>) -> Result<RetriedTasks, CallError> {
        unreachable!()
    }

    async fn retry_matching(
        &self,
        _: TaskQuery,
        _: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        unreachable!()
    }

    async fn count(&self, _: TaskQuery) -> Result<TaskCounts, CallError> {
        unreachable!()
    }

    async fn changes(&self) -> Result<ChangeStream, CallError> {
        unreachable!()
    }

    async fn group(&self, _: GroupKey, _: Option<Duration>) -> Result<GroupState, CallError> {
        unreachable!()
    }

    async fn groups(&self, _: GroupQuery) -> Result<GroupPage, CallError> {
        unreachable!()
    }

    async fn group_events(&self, _: GroupKey) -> Result<GroupStateStream, CallError> {
        unreachable!()
    }

    async fn follow(&self, _: TaskId, _: FollowRequest) -> Result<OutputEventStream, CallError> {
        unreachable!()
    }

    async fn get(&self, _: TaskId, _: Option<Duration>) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn waiting(&self, _: TaskId) -> Result<TaskWait, CallError> {
        unreachable!()
    }

    async fn search(&self, _: TaskQuery) -> Result<Page, CallError> {
        unreachable!()
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        unreachable!()
    }

    async fn history(&self, _: HistorySpan) -> Result<History, CallError> {
        unreachable!()
    }

    async fn check(&self) -> Result<Readiness, CallError> {
        unreachable!()
    }

    async fn events(&self, _: TaskId) -> Result<EventStream, CallError> {
        unreachable!()
    }

    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        unreachable!()
    }

    async fn drain(
        &self,
        _: ExecutorName,
        _: DrainReason,
        _: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        unreachable!()
    }
    async fn resume(&self, _: ExecutorName) -> Result<ExecutorState, CallError> {
        unreachable!()
    }
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unreachable!()
    }
    async fn languages(&self) -> Result<Vec<Language>, CallError> {
        Ok(vec![])
    }

    async fn put_problem(&self, _: JudgeProblem, _: ProblemEditor) -> Result<JudgeProblem, CallError> {
        unreachable!()
    }
    async fn problem(&self, _: ProblemName) -> Result<Option<JudgeProblem>, CallError> {
        unreachable!()
    }
    async fn problems(&self) -> Result<Vec<ProblemSummary>, CallError> {
        unreachable!()
    }
    async fn remove_problem(&self, _: ProblemName, _: ProblemEditor) -> Result<bool, CallError> {
        unreachable!()
    }

    async fn put_blob(&self, _: BlobHash, _: Option<u64>, _: ByteStream) -> Result<u64, CallError> {
        unreachable!()
    }

    async fn partial_blob(&self, _: BlobHash) -> Result<u64, CallError> {
        unreachable!()
    }

    async fn get_blob(&self, _: BlobHash) -> Result<ByteStream, CallError> {
        unreachable!()
    }
}
