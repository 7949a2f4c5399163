//! What a store says has changed, once it is durable. The source of hints: never of truth.

use model::{ExecutorName, Moment, Status, TaskId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This many tasks more wait for an executor.
    Waiting(usize),
    /// An executor has a task that it must not go on with.
    Withdrawn(ExecutorName),
    /// A task has a new status. `executor` is the one whose report brought it there, if one did.
    Moved {
        id: TaskId,
        status: Status,
        executor: Option<ExecutorName>,
        time: Moment,
    },
    /// Some changes were missed, as when a receiver lags: whoever listens has to look for himself.
    Lost,
}
