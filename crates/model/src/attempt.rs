//! Attempts of tasks: how one is named, and how it ends.

use std::str::FromStr;

use crate::{AttemptNumber, ExecutorName, SessionId, TaskForm, TaskId, TaskResult, TaskStatus, UnixTime};

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
    /// The form of the task.
    pub form: TaskForm,
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

/// An attempt that began, as a task shows it: where it ran, when, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    pub executor: ExecutorName,
    pub attempt: AttemptNumber,
    pub start_time: UnixTime,
    /// When it ended, and how. `None` while it runs.
    pub end: Option<(UnixTime, RecordedEnd)>,
}

/// How an attempt ended, as a task shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordedEnd {
    /// It has the task's result.
    Finished,
    /// Its executor died, went silent or hung while it ran.
    Lost,
    /// Its executor returned it before it had a result, in an orderly stop.
    GivenBack,
    /// Its executor could not run it, through no fault of the task.
    Broken,
    /// The task was cancelled.
    Cancelled,
}

impl AttemptRecord {
    /// How many of its newest attempts a task shows.
    pub const MAX_COUNT: usize = 20;
}

impl RecordedEnd {
    pub const ALL: [RecordedEnd; 5] = [
        RecordedEnd::Finished,
        RecordedEnd::Lost,
        RecordedEnd::GivenBack,
        RecordedEnd::Broken,
        RecordedEnd::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RecordedEnd::Finished => "finished",
            RecordedEnd::Lost => "lost",
            RecordedEnd::GivenBack => "given_back",
            RecordedEnd::Broken => "broken",
            RecordedEnd::Cancelled => "cancelled",
        }
    }
}

impl FromStr for RecordedEnd {
    type Err = String;
    fn from_str(text: &str) -> Result<RecordedEnd, String> {
        RecordedEnd::ALL
            .into_iter()
            .find(|end| end.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no end of an attempt"))
    }
}
