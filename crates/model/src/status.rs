//! Where a task stands, and the only table of how it may move on.

use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Added; not yet known to have started.
    Pending,
    Compiling,
    Running,
    /// Its attempt was lost or given back; it waits for the next.
    Retrying,
    /// Execute exited with 0.
    Success,
    CompileFailed,
    RunFailed,
    Cancelled,
    /// Its attempts are used up, or the platform itself could not run it.
    SystemError,
}

use Status::*;

/// What each status may become. A task may finish without ever having been seen compiling or running:
/// a short one is done before the next report.
const TRANSITIONS: [(Status, &[Status]); 9] = [
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

impl Status {
    pub const ALL: [Status; 9] = [
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

    pub fn may_become(self, next: Status) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to)| *from == self && to.contains(&next))
    }

    /// A done task never changes again.
    pub fn done(self) -> bool {
        TRANSITIONS
            .iter()
            .any(|(from, to)| *from == self && to.is_empty())
    }

    /// The statuses from which `self` may be reached: what a store puts in a write's condition.
    pub fn reached_from(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |from| from.may_become(self))
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

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = String;
    fn from_str(text: &str) -> Result<Status, String> {
        Status::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
                format!("'{text}' is no status; there are {}", known.join(", "))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_row_and_its_name() {
        for status in Status::ALL {
            assert_eq!(TRANSITIONS.iter().filter(|(from, _)| *from == status).count(), 1);
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert!("done".parse::<Status>().is_err());
    }

    #[test]
    fn done_is_for_ever() {
        let done: Vec<_> = Status::ALL.into_iter().filter(|status| status.done()).collect();
        assert_eq!(done, [Success, CompileFailed, RunFailed, Cancelled, SystemError]);
        for status in done {
            assert!(Status::ALL.into_iter().all(|next| !status.may_become(next)));
        }
    }

    #[test]
    fn work_does_not_run_backwards() {
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
