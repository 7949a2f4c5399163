//! How a command ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub reason: Reason,
    /// Of the first process, when it ended by itself; 127 and 126 also mean "not found" and "cannot be
    /// executed", with a line on stderr that says so, as a shell would.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// From the start of the first process to its end.
    pub wall: Duration,
    /// User and system time of all processes.
    pub cpu: Duration,
    /// Peak resident bytes: the larger of the largest process's own peak and, where a limit made the warden
    /// sample, the largest sum over all processes that a sample saw.
    ///
    /// The kernel counts a process's peak from before its `exec`, when it was still a copy of the warden; so
    /// nothing below the warden's own few megabytes is ever reported.
    pub memory: u64,
    pub stdout: Captured,
    pub stderr: Captured,
}

/// The first bytes of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    #[serde(with = "wire::bytes")]
    pub bytes: Vec<u8>,
    /// The command wrote more than was kept.
    pub truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    Exited,
    Signalled,
    /// CPU time.
    TimeLimit,
    WallLimit,
    MemoryLimit,
    OutputLimit,
    ProcessLimit,
    /// The command failed, and the cell's file system was full.
    DiskLimit,
    /// Its ticket was killed.
    Cancelled,
    /// The owner let the time pass until which it had promised to be there.
    Abandoned,
}
