//! How a step ended. A program that fails, hangs or floods its output has an outcome; it is not an error of Conclave.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use crate::TaskStatus;

/// How a step of a task (compile or execute) ended, what it used, and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub reason: OutcomeReason,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall: Duration,
    pub cpu: Duration,
    /// The peak memory, in bytes.
    pub memory: u64,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
}

/// What a step of a task wrote to stdout or stderr, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    pub bytes: Bytes,
    /// Whether the step wrote more than this.
    pub truncated: bool,
}

/// Why a step of a task (compile or execute) ended, such as its exit, a signal or an exceeded limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeReason {
    Exited,
    Signalled,
    TimeLimit,
    WallLimit,
    MemoryLimit,
    OutputLimit,
    ProcessLimit,
    /// The step failed, and the space for the task's files was full.
    DiskLimit,
    Cancelled,
}

/// The result of an attempt to run a task: the outcomes of its steps. If there is no execute outcome, the compile step
/// failed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    pub execute: Option<Outcome>,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.reason == OutcomeReason::Exited && self.exit_code == Some(0)
    }
}

impl TaskResult {
    pub fn status(&self) -> TaskStatus {
        match (&self.compile, &self.execute) {
            (_, Some(execute)) if execute.succeeded() => TaskStatus::Success,
            (_, Some(_)) => TaskStatus::RunFailed,
            (_, None) => TaskStatus::CompileFailed,
        }
    }
}

impl OutcomeReason {
    pub const ALL: [OutcomeReason; 9] = [
        OutcomeReason::Exited,
        OutcomeReason::Signalled,
        OutcomeReason::TimeLimit,
        OutcomeReason::WallLimit,
        OutcomeReason::MemoryLimit,
        OutcomeReason::OutputLimit,
        OutcomeReason::ProcessLimit,
        OutcomeReason::DiskLimit,
        OutcomeReason::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeReason::Exited => "exited",
            OutcomeReason::Signalled => "signalled",
            OutcomeReason::TimeLimit => "time_limit",
            OutcomeReason::WallLimit => "wall_limit",
            OutcomeReason::MemoryLimit => "memory_limit",
            OutcomeReason::OutputLimit => "output_limit",
            OutcomeReason::ProcessLimit => "process_limit",
            OutcomeReason::DiskLimit => "disk_limit",
            OutcomeReason::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for OutcomeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OutcomeReason {
    type Err = String;
    fn from_str(text: &str) -> Result<OutcomeReason, String> {
        OutcomeReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no reason for an outcome"))
    }
}
