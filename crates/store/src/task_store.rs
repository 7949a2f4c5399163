//! The contract that every store keeps. The suite in `contract` says it in tests.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use model::{
    Added, Age, Attempt, BlobHash, Counts, ExecutorName, ExecutorState, Moment, Page, Query, Report,
    ReportAnswer, Seq, SessionId, Status, Task, TaskId, TaskSpec,
};
use supervise::Failures;
use tokio::sync::broadcast;

use crate::{Change, StoreError};

/// A task to add, with the digest of what its user asked: the same id with the same digest is the same task.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub id: TaskId,
    pub digest: [u8; 32],
    pub spec: TaskSpec,
}

/// A handled report, and what its handling did, for counting.
#[derive(Clone, Debug)]
pub struct Reported {
    pub answer: ReportAnswer,
    /// Results committed by this report.
    pub finished: Vec<Finished>,
    /// Tasks claimed by this report (not counting those that were handed out again): when each was added.
    pub claimed: Vec<Moment>,
}

/// A result that was just committed: when its attempt was handed out and when it ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    pub task: TaskId,
    pub attempt: Attempt,
    pub status: Status,
    pub start_time: Moment,
    pub finish_time: Moment,
}

/// A live session, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSeen {
    pub executor: ExecutorName,
    pub session: SessionId,
    pub seq: Seq,
}

impl SessionSeen {
    /// What stands for the session of an executor whose row cannot be read. Reports count from 1, so no session is like
    /// this.
    pub(crate) fn unreadable(executor: ExecutorName) -> SessionSeen {
        SessionSeen {
            executor,
            session: SessionId(uuid::Uuid::nil()),
            seq: Seq(0),
        }
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        *self == SessionSeen::unreadable(self.executor.clone())
    }
}

/// What a round of retention removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    pub tasks: usize,
    pub blobs: usize,
}

/// How many tasks there are and how many of them executors hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub counts: Counts,
    pub held: u64,
}

/// A complete file outside the store, checked against its hash, that `put_blob` takes over.
#[derive(Debug)]
pub struct BlobFile {
    pub hash: BlobHash,
    pub size: u64,
    pub path: PathBuf,
}

/// A part of the blobs, for a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobShelf {
    /// Those that are not known to be damaged.
    pub blobs: Vec<BlobHash>,
    /// Files that no blob referred to, and that are removed.
    pub orphans: usize,
}

pub type BlobBytes = BoxStream<'static, Result<Bytes, StoreError>>;

#[async_trait]
pub trait TaskStore: Send + Sync + 'static {
    /// Adds all or none; durable when it returns. A task that exists with the same digest counts as added.
    async fn add(&self, tasks: Vec<NewTask>) -> Result<Vec<Added>, StoreError>;

    /// Where it is not done: no executor, cancelled, done. Answers the task as it is afterwards.
    async fn cancel(&self, id: TaskId) -> Result<Option<Task>, StoreError>;

    async fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError>;

    async fn search(&self, query: Query) -> Result<Page, StoreError>;

    async fn totals(&self) -> Result<Totals, StoreError>;

    /// The five steps of a report, in their order; durable when it returns.
    ///
    /// A completed attempt that is `Broken` is released as lost: after `max_attempts` such losses the task ends as
    /// `system_error`. One that is a `PlatformFailure` is counted apart from these, up to `MAX_PLATFORM_LOSSES`. What a report gives back by not naming it is released without being counted as a loss; so is
    /// what a succeeded session held, for its successor names as `Broken` what had begun when the other died.
    ///
    /// Fewer than `vacant` may be assigned although more wait: an answer is bounded in size. The next report
    /// gets the rest.
    async fn report(&self, report: Report) -> Result<Reported, StoreError>;

    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError>;

    /// Also executors whose rows cannot be read, as sessions that do not move: expiring one makes its row readable and
    /// releases all that is held under its name. Until then its reports are refused.
    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError>;

    /// Ends the session and releases its tasks as lost, only if it is live and its seq is still the one seen.
    /// Answers the number of tasks released, `None` if the session has moved on.
    async fn expire(&self, seen: SessionSeen) -> Result<Option<usize>, StoreError>;

    /// How old the store is now. What is done, used or gone is stamped with it, and retention compares only these
    /// stamps: times of the clock are for people.
    async fn age(&self) -> Result<Age, StoreError>;

    /// Advances the age by what a leader has measured, if it is still `from`; so if two take themselves for the
    /// leader at a time, only one of them counts. Answers what the age is then.
    async fn advance_age(&self, from: Age, by: Duration) -> Result<Age, StoreError>;

    /// Forgets executors that were gone before the store had this age.
    async fn forget_executors(&self, gone_before: Age) -> Result<usize, StoreError>;

    /// Removes tasks that were done before `done_before` and blobs that no task uses and nobody put or asked
    /// for since `unused_since`; at most `limit` of each, so that it never holds up the others for long.
    async fn retire(&self, done_before: Age, unused_since: Age, limit: usize) -> Result<Retired, StoreError>;

    /// Where a blob on its way in is to be written, so that keeping it is a rename.
    fn incoming(&self) -> PathBuf;

    /// Takes the file over as a blob; durable when it returns. If the blob exists and is damaged, that mends it.
    async fn put_blob(&self, file: BlobFile) -> Result<(), StoreError>;

    /// Their sizes; `None` where there is none or it is damaged. Asking counts as use: it is safe to add a task with them now.
    async fn has_blobs(&self, hashes: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError>;

    /// The bytes are checked against the hash as they are read: those of a damaged blob end in
    /// [`StoreError::DamagedBlob`] before the last of them, and the blob is marked as damaged.
    async fn get_blob(&self, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError>;

    /// Writes a little durably and reads it back: whether a task could be added and read now.
    async fn check(&self) -> Result<(), StoreError>;

    /// Tells when a component of the store has failed for good; the store cannot be used any more then.
    fn failures(&self) -> Failures;

    /// The blobs whose hash begins with this byte, for a scan that reads them all in time. Files there that no blob
    /// refers to are removed: a crash can leave them.
    async fn scan_blobs(&self, first_byte: u8) -> Result<BlobShelf, StoreError>;

    /// How many blobs are known to be damaged and were not put again.
    async fn damaged_blobs(&self) -> Result<u64, StoreError>;

    /// What changes from now on, in the order of its commits. A receiver that lags has to look for itself.
    fn changes(&self) -> broadcast::Receiver<Change>;
}
