//! Attempts of tasks: how one is named, and how it ends.

use crate::{AttemptNumber, SessionId, TaskId, TaskResult, TaskStatus};

/// Identifies one attempt to run a task: the task, the executor session that holds it, and the attempt's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub task: TaskId,
    pub session: SessionId,
    pub attempt: AttemptNumber,
}

/// An attempt of a task that has ended, as an executor's report to a judicator lists it under `complete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedAttempt {
    /// The session may be an earlier one of this executor, if the executor found the attempt in its spool.
    pub attempt_id: AttemptId,
    pub end: AttemptEnd,
}

/// How an executor's attempt to run a task ended: with a result, or without one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all values are large")]
pub enum AttemptEnd {
    Result(TaskResult),
    /// The attempt has no result, and the task itself may be the cause: its slot hung, or its executor was killed.
    /// This uses up one of the task's attempts.
    Broken(String),
    /// The executor could not run the attempt, through no fault of the task. Another executor may be able to.
    PlatformFailure(String),
}

/// An attempt of a task that has not ended, as an executor's report to a judicator lists it under `executing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutingAttempt {
    pub attempt_id: AttemptId,
    /// `Compiling` or `Running` once a step has begun; `None` while the attempt waits for a slot.
    pub status: Option<TaskStatus>,
}
