//! How a command ended.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a command that a warden ran has ended, what it used and what it printed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandOutcome {
    pub reason: CommandEndReason,
    /// The exit code of the first process, if it exited. As in a shell, 127 also means that the program was not found
    /// and 126 that it could not be executed; a line on stderr says so.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Time from the start of the first process to its end.
    pub wall: Duration,
    /// User and system CPU time of all processes.
    pub cpu: Duration,
    /// Peak resident bytes: the larger of the peak of the largest process and, if a limit made the warden sample, the
    /// largest sum over all processes in one sample.
    ///
    /// The kernel starts the peak of a process with that of the warden that it was cloned from, so no value is below
    /// the warden's own few megabytes.
    pub memory: u64,
    pub stdout: CapturedStream,
    pub stderr: CapturedStream,
}

/// The captured part of a command's stdout or stderr in its [`CommandOutcome`]. It is whole in `head` if it fits, and
/// otherwise whole in `file`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CapturedStream {
    /// The first captured bytes, [`crate::STREAM_HEAD`] at most. The owner takes them from the memory that it shares
    /// with the warden.
    #[serde(skip)]
    pub head: Vec<u8>,
    /// How many bytes were captured.
    pub size: u64,
    /// All captured bytes, if they are more than `head` can hold: a file without a name, whose position is its start.
    #[serde(skip)]
    pub file: Option<Arc<File>>,
    /// Whether the command wrote more than was captured.
    pub truncated: bool,
}

/// Why a command that a warden ran has ended: by itself, because of a limit, or because of the warden's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandEndReason {
    Exited,
    Signalled,
    /// The command used more CPU time than its limit.
    TimeLimit,
    WallLimit,
    MemoryLimit,
    OutputLimit,
    ProcessLimit,
    /// The command failed, and the file system of its cell was full.
    DiskLimit,
    /// The owner killed the run through its [`crate::RunHandle`].
    Cancelled,
    /// The owner did not renew its keep-alive in time, for example because it hangs or has lost its network.
    Abandoned,
}
