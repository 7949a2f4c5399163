//! Keeps tasks and blobs, and changes them by named atomic transitions.
//!
//! [`TaskStore`] is the interface. [`sqlite`] implements it on one machine, [`mongo`] on a replica set. `model` decides
//! which transition a task takes; a store applies it atomically and durably.
//! This crate knows nothing of leases, of clocks on other machines, of gRPC or of HTTP.

mod change_event;
mod concurrency_limiter;
#[cfg(feature = "contract")]
pub mod contract;
mod disk_probe;
mod document;
mod end_counter;
mod error;
mod history_store;
mod incoming_folder;
pub mod mongo;
mod newer_forms;
mod problem_store;
mod search;
pub mod sqlite;
mod task_store;
mod tools_cache;
mod unreadable_rows;
mod verified_stream;

/// A claim skips tasks that need more than the executor has, but no more than this many: so its cost does not depend
/// on the length of the queue. The tasks behind them wait until larger executors have claimed some of the skipped ones.
pub(crate) const MAX_SKIPPED_TASKS: usize = 1000;
/// How many tasks one call of `TaskStore::cancel_many` cancels at most, so that other operations do not wait long.
pub const MAX_CANCELLED_AT_ONCE: usize = 1000;
/// Retention removes no further task in a transaction after the one that brings its references to blobs to this number.
pub(crate) const MAX_REFERENCES_REMOVED_AT_ONCE: usize = 5000;
/// How many tasks the answer to a report assigns at most. An answer is a single message; the next report claims the
/// rest.
pub(crate) const MAX_ANSWER_TASKS: u32 = 1000;
/// An answer contains no further task after the one that brings its specs to this size.
pub(crate) const MAX_ANSWER_BYTES: usize = 24 << 20;

pub use change_event::ChangeEvent;
pub use end_counter::EndsWithoutResult;
pub use error::StoreError;
pub use history_store::{HistoryStore, WrittenFigures};
pub use problem_store::{ProblemBounds, ProblemStore};
pub use search::SEARCH_SCAN_LIMIT;
pub use task_store::{
    BlobFile, BlobScanResult, BlobStream, FinishedAttempt, HandledReport, NewTaskRecord, ObservedSession,
    RetentionSummary, TaskStore, TaskTotals,
};
