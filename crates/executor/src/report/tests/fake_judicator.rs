//! Fakes of the judicator for tests of the report loop.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{
    AddTask, AddedTask, Assignment, BlobHash, Content, DrainReason, ExecutorName, ExecutorState,
    FollowRequest, GroupKey, GroupPage, GroupQuery, GroupState, History, HistorySpan, JudgeProblem,
    JudicatorState, Language, Page, ProblemEditor, ProblemName, ProblemSummary, Report, SessionId, Stats,
    Task, TaskCounts, TaskId, TaskQuery, TaskWait, UserName,
};
use rpc::{
    BlobFileSource, ByteStream, CancelledTasks, ChangeStream, EventStream, GroupStateStream, HintStream,
    OutputAnswerStream, OutputEventStream, OutputRequestStream, Readiness, RetriedTasks, RetryProgress,
};
use tokio::sync::oneshot;

use super::super::*;
use crate::fixtures;

/// A fake judicator for tests of the report loop: `answers` answers reports, other calls have fixed answers.
pub(super) struct FakeJudicatorCalls<A> {
    pub(super) answers: A,
    pub(super) blob: FakeBlobDownload,
    pub(super) uploads: FakeUploads,
}

/// The blobs of a fake judicator, and the uploads that wait for the test.
#[derive(Clone)]
pub(super) struct FakeUploads {
    pub(super) stored: Arc<Mutex<BTreeSet<BlobHash>>>,
    /// The blobs that were looked for, in the order of the calls.
    pub(super) checked: Arc<Mutex<Vec<BlobHash>>>,
    requests: mpsc::UnboundedSender<PendingUpload>,
}

/// An upload that has reached a fake judicator. The test answers it.
pub(super) struct PendingUpload {
    pub(super) file: BlobFileSource,
    pub(super) answer: oneshot::Sender<Result<(), CallError>>,
}

impl FakeUploads {
    pub(super) fn new() -> (FakeUploads, mpsc::UnboundedReceiver<PendingUpload>) {
        let (requests, received) = mpsc::unbounded_channel();
        let uploads = FakeUploads {
            stored: Arc::default(),
            checked: Arc::default(),
            requests,
        };
        (uploads, received)
    }

    async fn put(&self, file: BlobFileSource) -> Result<(), CallError> {
        let (answer, answered) = oneshot::channel();
        let hash = file.hash;
        let _ = self.requests.send(PendingUpload { file, answer });
        match answered.await {
            Ok(answer) => answer.inspect(|()| {
                self.stored.lock().unwrap().insert(hash);
            }),
            // The test has dropped the upload: no answer ever arrives.
            Err(_) => std::future::pending().await,
        }
    }

    fn has(&self, hashes: &[BlobHash]) -> Vec<Option<u64>> {
        self.checked.lock().unwrap().extend(hashes);
        let stored = self.stored.lock().unwrap();
        hashes
            .iter()
            .map(|hash| stored.contains(hash).then_some(0))
            .collect()
    }
}

/// The part of a fake judicator that answers reports, in tests of the report loop.
#[async_trait]
pub(super) trait AnswerReport: Send + Sync + 'static {
    async fn answer(&self, report: Report) -> Result<ReportAnswer, CallError>;
}

/// The answers of a fake judicator that assigns one task in its first answer and never acknowledges the result.
pub(super) struct OneTaskAnswers {
    reports: mpsc::UnboundedSender<Report>,
    store: FakeStore,
    /// How many platform failures the assigned task already has.
    platform_losses: u32,
    /// Whether answers revoke every attempt that the report names as executing.
    pub(super) cancelled: AtomicBool,
}

/// A judicator with [`OneTaskAnswers`], and the reports that it receives.
pub(super) fn one_task_judicator(
    blob: FakeBlobDownload,
    store: FakeStore,
    platform_losses: u32,
) -> (
    Arc<FakeJudicatorCalls<OneTaskAnswers>>,
    mpsc::UnboundedReceiver<Report>,
) {
    let (reports, receiver) = mpsc::unbounded_channel();
    let answers = OneTaskAnswers {
        reports,
        store,
        platform_losses,
        cancelled: AtomicBool::new(false),
    };
    let uploads = FakeUploads::new().0;
    let judicator = FakeJudicatorCalls {
        answers,
        blob,
        uploads,
    };
    (Arc::new(judicator), receiver)
}

/// Whether the fake judicator with [`OneTaskAnswers`] answers reports, or hangs like one whose store hangs.
#[derive(PartialEq)]
pub(super) enum FakeStore {
    Answers,
    Hangs,
}

/// What happens when the executor downloads a task's blob from a fake judicator, in tests of the report loop.
pub(super) enum FakeBlobDownload {
    Missing,
    /// The store cannot read the blob.
    Unreadable,
    /// The first byte arrives, and no other.
    Stalls,
}

pub(super) const MISSING: BlobHash = BlobHash([7; 32]);

#[async_trait]
impl AnswerReport for OneTaskAnswers {
    async fn answer(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let mut answer = ReportInstructions::default();
        if report.seq == model::ReportSeq(1) {
            let attempt_id = fixtures::attempt_id(report.session);
            let spec = fixtures::spec(Content::Blob(MISSING));
            let platform_losses = self.platform_losses;
            answer.assign.push(Assignment {
                attempt_id,
                spec,
                platform_losses,
            });
        }
        if self.cancelled.load(Ordering::Relaxed) {
            answer
                .delete
                .extend(report.executing.iter().map(|one| one.attempt_id));
        }
        let _ = self.reports.send(report);
        if self.store == FakeStore::Hangs {
            std::future::pending::<()>().await;
        }
        Ok(ReportAnswer::Done(answer))
    }
}

#[async_trait]
impl<A: AnswerReport> Calls for FakeJudicatorCalls<A> {
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        self.answers.answer(report).await
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        match self.blob {
            FakeBlobDownload::Missing => Err(CallError::NoBlob(hash)),
            FakeBlobDownload::Unreadable => Err(CallError::Unreadable(format!("{hash}: a bad sector"))),
            FakeBlobDownload::Stalls => {
                let first = futures::stream::iter([Ok(bytes::Bytes::from_static(b"x"))]);
                Ok(first.chain(futures::stream::pending()).boxed())
            }
        }
    }

    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn add(&self, _: Vec<AddTask>) -> Result<Vec<AddedTask>, CallError> {
        unreachable!()
    }

    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
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

    async fn put_blob_file(&self, file: BlobFileSource) -> Result<(), CallError> {
        self.uploads.put(file).await
    }

    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        Ok(self.uploads.has(&hashes))
    }

    async fn put_blob(&self, _: BlobHash, _: Option<u64>, _: ByteStream) -> Result<u64, CallError> {
        unreachable!()
    }

    async fn partial_blob(&self, _: BlobHash) -> Result<u64, CallError> {
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

    async fn serve_output(
        &self,
        _: ExecutorName,
        _: SessionId,
        answers: OutputAnswerStream,
    ) -> Result<OutputRequestStream, CallError> {
        // Nobody asks for output.
        Ok(answers.filter_map(|_| std::future::ready(None)).boxed())
    }
}
