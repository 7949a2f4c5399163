//! A judicator for tests of the report loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{
    Add, Added, Assignment, BlobHash, ExecutorName, ExecutorState, JudicatorState, Page, Query, SessionId,
    Stats, Task, TaskId,
};
use rpc::{ByteStream, EventStream, HintStream, Ready};

use super::super::*;
use crate::fixtures;

/// A judicator that hands out one task with the first answer, and never answers for its result.
pub(super) struct FakeJudicator {
    pub(super) reports: mpsc::UnboundedSender<Report>,
    pub(super) blob: Blob,
    pub(super) store: Store,
    /// Of the task that is handed out.
    pub(super) platform_losses: u32,
    /// Answers list every attempt that the report names as executing under `delete`.
    pub(super) cancelled: AtomicBool,
}

impl FakeJudicator {
    pub(super) fn new(blob: Blob, store: Store) -> (FakeJudicator, mpsc::UnboundedReceiver<Report>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        let judicator = FakeJudicator {
            reports,
            blob,
            store,
            platform_losses: 0,
            cancelled: AtomicBool::new(false),
        };
        (judicator, receiver)
    }
}

#[derive(PartialEq)]
pub(super) enum Store {
    Answers,
    Hangs,
}

pub(super) enum Blob {
    Missing,
    /// The store cannot read it, which is no fault of the task.
    Unreadable,
    /// Its first byte comes, and no other.
    Stalls,
}

const MISSING: BlobHash = BlobHash([7; 32]);

#[async_trait]
impl Calls for FakeJudicator {
    async fn report(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let mut answer = Answer::default();
        if report.seq == model::Seq(1) {
            let handout = fixtures::handout(report.session);
            let spec = fixtures::spec(Content::Blob(MISSING));
            let platform_losses = self.platform_losses;
            answer.assign.push(Assignment {
                handout,
                spec,
                platform_losses,
            });
        }
        if self.cancelled.load(Ordering::Relaxed) {
            answer
                .delete
                .extend(report.executing.iter().map(|one| one.handout));
        }
        let _ = self.reports.send(report);
        if self.store == Store::Hangs {
            std::future::pending::<()>().await;
        }
        Ok(ReportAnswer::Done(answer))
    }

    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        match self.blob {
            Blob::Missing => Err(CallError::NoBlob(hash)),
            Blob::Unreadable => Err(CallError::Unreadable("a bad sector".into())),
            Blob::Stalls => {
                let first = futures::stream::iter([Ok(bytes::Bytes::from_static(b"x"))]);
                Ok(first.chain(futures::stream::pending()).boxed())
            }
        }
    }

    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        Ok(Box::pin(futures::stream::pending()))
    }

    async fn add(&self, _: Vec<Add>) -> Result<Vec<Added>, CallError> {
        unreachable!()
    }

    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn get(&self, _: TaskId, _: Option<Duration>) -> Result<Task, CallError> {
        unreachable!()
    }

    async fn search(&self, _: Query) -> Result<Page, CallError> {
        unreachable!()
    }

    async fn stats(&self) -> Result<Stats, CallError> {
        unreachable!()
    }
    async fn check(&self) -> Result<Ready, CallError> {
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
