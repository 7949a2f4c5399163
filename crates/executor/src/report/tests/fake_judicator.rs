//! Fakes of the judicator for tests of the report loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{
    AddTask, AddedTask, Assignment, BlobHash, ExecutorName, ExecutorState, JudicatorState, Page, SessionId,
    Stats, Task, TaskId, TaskQuery,
};
use rpc::{ByteStream, EventStream, HintStream, Readiness};

use super::super::*;
use crate::fixtures;

/// A fake judicator for tests of the report loop: `answers` answers reports, other calls have fixed answers.
pub(super) struct FakeJudicatorCalls<A> {
    pub(super) answers: A,
    pub(super) blob: FakeBlobDownload,
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
    (Arc::new(FakeJudicatorCalls { answers, blob }), receiver)
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

const MISSING: BlobHash = BlobHash([7; 32]);

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
            FakeBlobDownload::Unreadable => Err(CallError::Unreadable("a bad sector".into())),
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

    async fn search(&self, _: TaskQuery) -> Result<Page, CallError> {
        unreachable!()
    }

    async fn stats(&self) -> Result<Stats, CallError> {
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

    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unreachable!()
    }

    async fn put_blob(&self, _: BlobHash, _: ByteStream) -> Result<u64, CallError> {
        unreachable!()
    }

    async fn has_blobs(&self, _: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        unreachable!()
    }
}
