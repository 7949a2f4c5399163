//! The part of a store that keeps the history: the figures that judicators keep of each minute.

use std::ops::Range;

use async_trait::async_trait;
use model::{ActivityFigures, HistoryMinute, UnixTime};
use uuid::Uuid;

use crate::{EndsWithoutResult, StoreError};

/// The figures of one minute that one writer, a judicator's process, has written to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFigures {
    pub minute: HistoryMinute,
    pub writer: Uuid,
    pub figures: ActivityFigures,
}

/// The history in a task store: figures of minutes, and what a judicator reads for them.
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// When the oldest task that waits for an executor was added. Its cost does not depend on the length of the queue.
    async fn oldest_queued(&self) -> Result<Option<UnixTime>, StoreError>;

    /// How many tasks this process has ended without a result since it opened the store: those that it cancelled, and
    /// those that it gave up. Other operations return what they ended.
    fn ends_without_result(&self) -> EndsWithoutResult;

    /// Writes figures of minutes. They replace what the same writer has written for the same minute, so the call may be
    /// repeated.
    async fn put_figures(&self, figures: Vec<WrittenFigures>) -> Result<(), StoreError>;

    /// The figures of these minutes, of all writers, in the order of the minutes.
    async fn figures(&self, minutes: Range<HistoryMinute>) -> Result<Vec<WrittenFigures>, StoreError>;

    /// Removes the figures of all minutes before this one.
    async fn remove_figures(&self, before: HistoryMinute) -> Result<(), StoreError>;
}
