//! Events that a store publishes after a commit. Judicators turn them into hints; correctness never depends on one.

use model::{ExecutorName, GroupKey, TaskId, TaskStatus, ToolRequirement, UnixTime};

/// A committed change of the task store, as the store sends it to its subscribers in the judicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeEvent {
    /// This many tasks with the same requirement joined the queue.
    TasksQueued { requires: ToolRequirement, count: usize },
    /// The executor must stop at least one of the attempts that it holds: the task was cancelled or released.
    AttemptRevoked(ExecutorName),
    /// The executor was drained or resumed, or its drain has another reason.
    DrainChanged(ExecutorName),
    /// A task has a new status. `executor` is set if a report of that executor caused the change.
    StatusChanged {
        id: TaskId,
        status: TaskStatus,
        executor: Option<ExecutorName>,
        time: UnixTime,
    },
    /// The counters of a group have changed. Several changes may be one event.
    GroupChanged(GroupKey),
    /// The store may have missed events. A subscriber that needs the current state reads it from the store.
    EventsLost,
}
