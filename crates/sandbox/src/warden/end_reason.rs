//! Decides why a command ended, once all its processes are gone.

use std::time::Duration;

use crate::outcome::CommandEndReason;
use crate::spec::CommandLimits;

/// How the first process of a command ended: with an exit code or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl ProcessExit {
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

/// What the warden knows about a command when all its processes are gone, to decide why it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunMeasurements {
    /// Why the warden ended the command, if it did.
    pub(super) stopped: Option<CommandEndReason>,
    pub(super) end: ProcessExit,
    pub(super) cpu: Duration,
    pub(super) memory: u64,
    /// Bytes written to the larger of the two streams.
    pub(super) output: u64,
}

/// The kernel's signal for a file above the limit, or the exit code of a shell whose command got that signal.
const FILE_TOO_LARGE: [ProcessExit; 2] = [
    ProcessExit::Signal(libc::SIGXFSZ),
    ProcessExit::Code(128 + libc::SIGXFSZ),
];

/// The warden's own reason comes first, then limits that only the final measurements show to be exceeded.
pub(super) fn end_reason(measurements: &RunMeasurements, limits: &CommandLimits) -> CommandEndReason {
    if let Some(stopped) = measurements.stopped {
        return stopped;
    }
    // The kernel's own CPU limit. Without the limit, the command may have sent itself this signal.
    let ended_by_kernel_limit =
        limits.cpu.is_some() && measurements.end == ProcessExit::Signal(libc::SIGXCPU);
    if ended_by_kernel_limit || limits.cpu.is_some_and(|limit| measurements.cpu > limit) {
        return CommandEndReason::TimeLimit;
    }
    if limits.memory.is_some_and(|limit| measurements.memory > limit) {
        return CommandEndReason::MemoryLimit;
    }
    let file_too_large = limits.file_size.is_some() && FILE_TOO_LARGE.contains(&measurements.end);
    if file_too_large || limits.output.is_some_and(|limit| measurements.output > limit) {
        return CommandEndReason::OutputLimit;
    }
    match measurements.end {
        ProcessExit::Code(_) => CommandEndReason::Exited,
        ProcessExit::Signal(_) => CommandEndReason::Signalled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_reason_is_returned() {
        const LIMITS: CommandLimits = CommandLimits {
            wall: None,
            cpu: Some(Duration::from_secs(1)),
            memory: Some(100),
            output: Some(10),
            processes: None,
            file_size: Some(1),
            open_files: None,
            stack: None,
        };
        const FINE: RunMeasurements = RunMeasurements {
            stopped: None,
            end: ProcessExit::Code(0),
            cpu: Duration::from_secs(1),
            memory: 100,
            output: 10,
        };
        fn check(measurements: RunMeasurements, limited: CommandEndReason, unlimited: CommandEndReason) {
            assert_eq!(end_reason(&measurements, &LIMITS), limited, "{measurements:?}");
            assert_eq!(
                end_reason(&measurements, &CommandLimits::default()),
                unlimited,
                "{measurements:?}"
            );
        }
        let late = Duration::from_micros(1_000_001);
        let killed = ProcessExit::Signal(libc::SIGKILL);
        check(FINE, CommandEndReason::Exited, CommandEndReason::Exited);
        check(
            RunMeasurements { end: killed, ..FINE },
            CommandEndReason::Signalled,
            CommandEndReason::Signalled,
        );
        check(
            RunMeasurements { cpu: late, ..FINE },
            CommandEndReason::TimeLimit,
            CommandEndReason::Exited,
        );
        check(
            RunMeasurements {
                end: ProcessExit::Signal(libc::SIGXCPU),
                ..FINE
            },
            CommandEndReason::TimeLimit,
            CommandEndReason::Signalled,
        );
        check(
            RunMeasurements {
                memory: 101,
                end: killed,
                ..FINE
            },
            CommandEndReason::MemoryLimit,
            CommandEndReason::Signalled,
        );
        check(
            RunMeasurements { output: 11, ..FINE },
            CommandEndReason::OutputLimit,
            CommandEndReason::Exited,
        );
        for (end, unlimited) in [
            (ProcessExit::Signal(libc::SIGXFSZ), CommandEndReason::Signalled),
            (ProcessExit::Code(153), CommandEndReason::Exited),
        ] {
            check(
                RunMeasurements { end, ..FINE },
                CommandEndReason::OutputLimit,
                unlimited,
            );
        }
        check(
            RunMeasurements {
                cpu: late,
                memory: 101,
                ..FINE
            },
            CommandEndReason::TimeLimit,
            CommandEndReason::Exited,
        );
        check(
            RunMeasurements {
                stopped: Some(CommandEndReason::Cancelled),
                cpu: late,
                ..FINE
            },
            CommandEndReason::Cancelled,
            CommandEndReason::Cancelled,
        );
    }

    #[test]
    fn a_wait_status_is_an_exit_code_or_a_signal() {
        fn check(status: i32, expected: ProcessExit) {
            assert_eq!(ProcessExit::of(status), expected, "{status:#x}");
        }
        check(0, ProcessExit::Code(0));
        check(0x0300, ProcessExit::Code(3));
        check(0xff00, ProcessExit::Code(255));
        check(9, ProcessExit::Signal(9));
        check(0x8b, ProcessExit::Signal(11));
    }
}
