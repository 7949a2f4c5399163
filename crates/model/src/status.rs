//! The status of a task, and the only table of its transitions.

use std::fmt;
use std::str::FromStr;

/// The status of a task: waiting, compiling, running, or one of the final statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskStatus {
    /// Added, and not known to have started.
    Pending,
    Compiling,
    Running,
    /// Its attempt was lost or returned. It waits for the next one.
    Retrying,
    /// The execute step exited with 0.
    Success,
    CompileFailed,
    RunFailed,
    Cancelled,
    /// Its attempts are used up, or the platform could not run it.
    SystemError,
}

use TaskStatus::*;

/// The statuses that each status may change to. A task may finish without a report of it compiling or running, because a
/// short task is done before the next report.
const TRANSITIONS: [(TaskStatus, &[TaskStatus]); 9] = [
    (
        Pending,
        &[
            Compiling,
            Running,
            Success,
            CompileFailed,
            RunFailed,
            Cancelled,
            Retrying,
            SystemError,
        ],
    ),
    (
        Compiling,
        &[
            Running,
            Success,
            CompileFailed,
            RunFailed,
            Cancelled,
            Retrying,
            SystemError,
        ],
    ),
    (Running, &[Success, RunFailed, Cancelled, Retrying, SystemError]),
    (
        Retrying,
        &[
            Compiling,
            Running,
            Success,
            CompileFailed,
            RunFailed,
            Cancelled,
            Retrying,
            SystemError,
        ],
    ),
    (Success, &[]),
    (CompileFailed, &[]),
    (RunFailed, &[]),
    (Cancelled, &[]),
    (SystemError, &[]),
];

impl TaskStatus {
    pub const ALL: [TaskStatus; 9] = [
        Pending,
        Compiling,
        Running,
        Retrying,
        Success,
        CompileFailed,
        RunFailed,
        Cancelled,
        SystemError,
    ];

    pub fn may_become(self, next: TaskStatus) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to)| *from == self && to.contains(&next))
    }

    /// Whether the status is final: a done task never changes again.
    pub fn is_done(self) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to)| *from == self && to.is_empty())
    }

    /// The statuses that may change to `self`. A store uses them in the condition of a write.
    pub fn reached_from(self) -> impl Iterator<Item = TaskStatus> {
        TaskStatus::ALL
            .into_iter()
            .filter(move |from| from.may_become(self))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Pending => "pending",
            Compiling => "compiling",
            Running => "running",
            Retrying => "retrying",
            Success => "success",
            CompileFailed => "compile_failed",
            RunFailed => "run_failed",
            Cancelled => "cancelled",
            SystemError => "system_error",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TaskStatus {
    type Err = String;
    fn from_str(text: &str) -> Result<TaskStatus, String> {
        TaskStatus::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
                format!("'{text}' is not a status; use one of {}", known.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_row_and_a_name_that_parses() {
        for status in TaskStatus::ALL {
            assert_eq!(TRANSITIONS.iter().filter(|(from, _)| *from == status).count(), 1);
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!("done".parse::<TaskStatus>().is_err());
    }

    #[test]
    fn a_done_status_never_changes() {
        let done: Vec<_> = TaskStatus::ALL
            .into_iter()
            .filter(|status| status.is_done())
            .collect();
        assert_eq!(done, [Success, CompileFailed, RunFailed, Cancelled, SystemError]);
        for status in done {
            assert!(TaskStatus::ALL.into_iter().all(|next| !status.may_become(next)));
        }
    }

    #[test]
    fn a_task_does_not_return_to_an_earlier_step() {
        assert!(!Running.may_become(Compiling));
        assert!(!Running.may_become(Pending));
        assert!(!Running.may_become(CompileFailed));
        assert_eq!(Compiling.reached_from().collect::<Vec<_>>(), [Pending, Retrying]);
        assert_eq!(
            Cancelled.reached_from().collect::<Vec<_>>(),
            [Pending, Compiling, Running, Retrying]
        );
    }
}
