//! The errors of calls, the same on both sides of the wire.

use model::{BlobHash, ExecutorName, GroupKey, InvalidField, ProblemRef, TaskForm, TaskId};
use thiserror::Error;

/// Why a call to a judicator failed, the same in the judicator and in the node that made the call.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    #[error("{0}")]
    Invalid(#[from] InvalidField),
    #[error("task {0} does not exist")]
    NoTask(TaskId),
    #[error("user {} has no task in the group {}", .0.user, .0.group)]
    NoGroup(GroupKey),
    #[error("executor {0} does not exist; `conclave executors` lists those that do")]
    NoExecutor(ExecutorName),
    #[error(
        "the problem {} belongs to {}; only that user and operators may replace or remove it",
        .0.name,
        .0.owner
    )]
    NotOwner(ProblemRef),
    #[error("task {0} is not done; cancel it, or wait until it is done")]
    NotDone(TaskId),
    /// Another judicator may know it, in the middle of an upgrade.
    #[error(
        "the task has form {0}, which this version of Conclave does not know; upgrade Conclave on this node"
    )]
    NewerForm(TaskForm),
    #[error("blob {0} does not exist; put it first")]
    NoBlob(BlobHash),
    #[error("blob {0} is damaged; put it again")]
    DamagedBlob(BlobHash),
    /// The same at every judicator, because they share the store.
    #[error("the store cannot read it: {0}")]
    Unreadable(String),
    #[error("task {0} exists already with other content; choose another id or send the same task")]
    Conflict(TaskId),
    #[error("the bytes sent have the SHA-256 {actual}, not {named}")]
    WrongHash { named: BlobHash, actual: BlobHash },
    #[error("the content is {actual} bytes or more, the limit is {limit}")]
    TooLarge { limit: u64, actual: u64 },
    /// Nothing was changed; the same call may succeed later.
    #[error("busy: {0}; try again later")]
    Busy(String),
    /// It is unknown whether the call was done. Repeating it is safe.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The store has no space left.
    #[error("the store is full: {0}; free some space")]
    Full(String),
    #[error("internal error: {0}")]
    Internal(String),
}

impl CallError {
    /// Adds the judicator's address, if the error is about the judicator and not about the request.
    pub(crate) fn of_judicator(self, address: &str) -> CallError {
        let named = |why: String| format!("judicator {address}: {why}");
        match self {
            CallError::Busy(why) => CallError::Busy(named(why)),
            CallError::Unavailable(why) => CallError::Unavailable(named(why)),
            CallError::Full(why) => CallError::Full(named(why)),
            CallError::Internal(why) => CallError::Internal(named(why)),
            about_the_request => about_the_request,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            CallError::Busy(_) | CallError::Unavailable(_) | CallError::Full(_) | CallError::NewerForm(_) => {
                true
            }
            CallError::Invalid(_)
            | CallError::NoTask(_)
            | CallError::NoGroup(_)
            | CallError::NoExecutor(_)
            | CallError::NotOwner(_)
            | CallError::NotDone(_)
            | CallError::NoBlob(_)
            | CallError::DamagedBlob(_)
            | CallError::Unreadable(_)
            | CallError::Conflict(_)
            | CallError::WrongHash { .. }
            | CallError::TooLarge { .. }
            | CallError::Internal(_) => false,
        }
    }
}
