//! How a step ended. A program that fails, hangs or floods is an outcome, never an error of ours.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;

use crate::Status;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub reason: Reason,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall: Duration,
    pub cpu: Duration,
    /// Peak bytes.
    pub memory: u64,
    pub stdout: Captured,
    pub stderr: Captured,
}

/// What a step wrote, up to a cap.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Captured {
    pub bytes: Bytes,
    /// There was more.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Exited,
    Signalled,
    TimeLimit,
    WallLimit,
    MemoryLimit,
    OutputLimit,
    ProcessLimit,
    /// The step failed, and the space for the task's files was used up.
    DiskLimit,
    Cancelled,
}

/// The outcomes of an attempt's steps. Without an execute outcome the compile step failed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    pub execute: Option<Outcome>,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.reason == Reason::Exited && self.exit_code == Some(0)
    }
}

impl TaskResult {
    pub fn status(&self) -> Status {
        match (&self.compile, &self.execute) {
            (_, Some(execute)) if execute.succeeded() => Status::Success,
            (_, Some(_)) => Status::RunFailed,
            (_, None) => Status::CompileFailed,
        }
    }
}

impl Reason {
    pub const ALL: [Reason; 9] = [
        Reason::Exited,
        Reason::Signalled,
        Reason::TimeLimit,
        Reason::WallLimit,
        Reason::MemoryLimit,
        Reason::OutputLimit,
        Reason::ProcessLimit,
        Reason::DiskLimit,
        Reason::Cancelled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exited => "exited",
            Reason::Signalled => "signalled",
            Reason::TimeLimit => "time_limit",
            Reason::WallLimit => "wall_limit",
            Reason::MemoryLimit => "memory_limit",
            Reason::OutputLimit => "output_limit",
            Reason::ProcessLimit => "process_limit",
            Reason::DiskLimit => "disk_limit",
            Reason::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = String;
    fn from_str(text: &str) -> Result<Reason, String> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("'{text}' is no reason for an outcome"))
    }
}
