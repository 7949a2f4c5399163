//! Keeps tasks and blobs, and changes them by named atomic transitions.
//!
//! [`TaskStore`] is the contract; [`sqlite`] keeps it on one machine, [`mongo`] on a replica set. What a transition may do is decided by
//! `model` (the transition table, `standing`, `settle`); a store's part is to do it atomically and durably.
//! This room knows nothing of leases, clocks between machines, the wire or HTTP.

mod admission;
mod change;
#[cfg(feature = "contract")]
pub mod contract;
mod document;
mod error;
pub mod mongo;
mod room;
mod search;
mod set_aside;
pub mod sqlite;
mod task_store;
mod verify;

/// A claim passes over so many waiting tasks at most that are beyond the executor's capacity: it costs the same however
/// many there are. Those behind them are found when larger executors have taken some.
pub(crate) const MOST_PASSED_OVER: usize = 1000;

pub use change::Change;
pub use error::StoreError;
pub use search::SEARCH_WINDOW;
pub use task_store::{
    BlobBytes, BlobFile, BlobShelf, Finished, NewTask, Reported, Retired, SessionSeen, TaskStore, Totals,
};
