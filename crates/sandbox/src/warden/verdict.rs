//! Why did it end? Decided from what is known when nothing is left of the command.

use std::time::Duration;

use crate::outcome::Reason;
use crate::spec::Limits;

/// How the first process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
}

impl End {
    pub(super) fn of(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Code(libc::WEXITSTATUS(status))
        } else {
            Self::Signal(libc::WTERMSIG(status))
        }
    }

    pub(super) fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            Self::Signal(_) => None,
        }
    }

    pub(super) fn signal(self) -> Option<i32> {
        match self {
            Self::Signal(signal) => Some(signal),
            Self::Code(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Why the warden ended it, if it did.
    pub(super) stopped: Option<Reason>,
    pub(super) end: End,
    pub(super) cpu: Duration,
    pub(super) memory: u64,
    /// Bytes on the fuller one of the two streams.
    pub(super) output: u64,
}

/// The kernel's signal for it, or a shell that says that a command of its own was ended by that.
const FILE_TOO_LARGE: [End; 2] = [End::Signal(libc::SIGXFSZ), End::Code(128 + libc::SIGXFSZ)];

/// What the warden did comes first, then what the exact figures show that no sample saw.
pub(super) fn verdict(facts: &Facts, limits: &Limits) -> Reason {
    if let Some(stopped) = facts.stopped {
        return stopped;
    }
    // The kernel's own backstop. A command without the limit may send itself this signal.
    let backstop = limits.cpu.is_some() && facts.end == End::Signal(libc::SIGXCPU);
    if backstop || limits.cpu.is_some_and(|limit| facts.cpu > limit) {
        return Reason::TimeLimit;
    }
    if limits.memory.is_some_and(|limit| facts.memory > limit) {
        return Reason::MemoryLimit;
    }
    let file_too_large = limits.file_size.is_some() && FILE_TOO_LARGE.contains(&facts.end);
    if file_too_large || limits.output.is_some_and(|limit| facts.output > limit) {
        return Reason::OutputLimit;
    }
    match facts.end {
        End::Code(_) => Reason::Exited,
        End::Signal(_) => Reason::Signalled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_that_holds_is_given() {
        const LIMITS: Limits = Limits {
            wall: None,
            cpu: Some(Duration::from_secs(1)),
            memory: Some(100),
            output: Some(10),
            processes: None,
            file_size: Some(1),
            open_files: None,
            stack: None,
        };
        const FINE: Facts = Facts {
            stopped: None,
            end: End::Code(0),
            cpu: Duration::from_secs(1),
            memory: 100,
            output: 10,
        };
        fn check(facts: Facts, limited: Reason, unlimited: Reason) {
            assert_eq!(verdict(&facts, &LIMITS), limited, "{facts:?}");
            assert_eq!(verdict(&facts, &Limits::default()), unlimited, "{facts:?}");
        }
        let late = Duration::from_micros(1_000_001);
        let killed = End::Signal(libc::SIGKILL);
        check(FINE, Reason::Exited, Reason::Exited);
        check(
            Facts { end: killed, ..FINE },
            Reason::Signalled,
            Reason::Signalled,
        );
        check(Facts { cpu: late, ..FINE }, Reason::TimeLimit, Reason::Exited);
        check(
            Facts {
                end: End::Signal(libc::SIGXCPU),
                ..FINE
            },
            Reason::TimeLimit,
            Reason::Signalled,
        );
        check(
            Facts {
                memory: 101,
                end: killed,
                ..FINE
            },
            Reason::MemoryLimit,
            Reason::Signalled,
        );
        check(Facts { output: 11, ..FINE }, Reason::OutputLimit, Reason::Exited);
        for (end, unlimited) in [
            (End::Signal(libc::SIGXFSZ), Reason::Signalled),
            (End::Code(153), Reason::Exited),
        ] {
            check(Facts { end, ..FINE }, Reason::OutputLimit, unlimited);
        }
        check(
            Facts {
                cpu: late,
                memory: 101,
                ..FINE
            },
            Reason::TimeLimit,
            Reason::Exited,
        );
        check(
            Facts {
                stopped: Some(Reason::Cancelled),
                cpu: late,
                ..FINE
            },
            Reason::Cancelled,
            Reason::Cancelled,
        );
    }

    #[test]
    fn a_status_is_a_code_or_a_signal() {
        fn check(status: i32, expected: End) {
            assert_eq!(End::of(status), expected, "{status:#x}");
        }
        check(0, End::Code(0));
        check(0x0300, End::Code(3));
        check(0xff00, End::Code(255));
        check(9, End::Signal(9));
        check(0x8b, End::Signal(11));
    }
}
