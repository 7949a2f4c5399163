//! Following the output of a task while it is written. Live output is never part of a result: the result alone counts.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use crate::{AttemptId, AttemptNumber};

/// One of the two steps of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepName {
    Compile,
    Execute,
}

/// One of the two output streams of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamName {
    Stdout,
    Stderr,
}

/// Names one of the four output streams of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputSource {
    pub step: StepName,
    pub stream: StreamName,
}

/// A place in an output stream of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputPosition {
    pub source: OutputSource,
    pub offset: u64,
}

/// What a follower asks a judicator for: output streams of a task, each from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowRequest {
    /// The attempt to which the offsets belong. Another attempt is followed from offset 0. `None` stands for the first
    /// attempt that the judicator finds.
    pub attempt: Option<AttemptNumber>,
    pub positions: Vec<OutputPosition>,
}

/// What a judicator tells a follower of a task's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Bytes that a step has written. Within an attempt the offsets of a stream are contiguous.
    Written {
        attempt: AttemptNumber,
        at: OutputPosition,
        bytes: Bytes,
    },
    /// All kept output of this stream was sent. `truncated` says that the step wrote more than is kept.
    StreamEnded {
        attempt: AttemptNumber,
        source: OutputSource,
        truncated: bool,
    },
}

/// A message from a judicator to an executor about output that somebody follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRequest {
    Read(OutputRead),
    /// Nobody waits for the answer to this request any more.
    Stop {
        id: u64,
    },
}

/// A judicator's request to an executor for output of an attempt. The executor answers once it has bytes at the offset,
/// or the stream has ended there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRead {
    /// Chosen by the judicator; the answer repeats it.
    pub id: u64,
    pub attempt_id: AttemptId,
    pub at: OutputPosition,
}

/// An executor's answer to an [`OutputRead`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputAnswer {
    pub id: u64,
    pub content: OutputContent,
}

/// What an executor has of an output stream at the offset that a judicator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputContent {
    /// At least one byte, at most [`OutputRead::MAX_BYTES`].
    Bytes(Bytes),
    /// The stream has no more kept bytes.
    Ended { truncated: bool },
    /// The executor does not have this attempt, or not any more.
    Unknown,
}

impl OutputRead {
    /// The most bytes in one answer.
    pub const MAX_BYTES: usize = 64 << 10;
    /// The most requests of one judicator that an executor keeps open. It answers further ones with
    /// [`OutputContent::Unknown`].
    pub const MAX_OPEN: usize = 256;
}

impl OutputSource {
    pub const ALL: [OutputSource; 4] = [
        OutputSource::new(StepName::Compile, StreamName::Stdout),
        OutputSource::new(StepName::Compile, StreamName::Stderr),
        OutputSource::new(StepName::Execute, StreamName::Stdout),
        OutputSource::new(StepName::Execute, StreamName::Stderr),
    ];

    pub const fn new(step: StepName, stream: StreamName) -> OutputSource {
        OutputSource { step, stream }
    }
}

impl StepName {
    pub fn as_str(self) -> &'static str {
        match self {
            StepName::Compile => "compile",
            StepName::Execute => "execute",
        }
    }
}

impl StreamName {
    pub fn as_str(self) -> &'static str {
        match self {
            StreamName::Stdout => "stdout",
            StreamName::Stderr => "stderr",
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StepName {
    type Err = String;
    fn from_str(text: &str) -> Result<StepName, String> {
        [StepName::Compile, StepName::Execute]
            .into_iter()
            .find(|step| step.as_str() == text)
            .ok_or_else(|| format!("'{text}' is not a step; use compile or execute"))
    }
}

impl FromStr for StreamName {
    type Err = String;
    fn from_str(text: &str) -> Result<StreamName, String> {
        [StreamName::Stdout, StreamName::Stderr]
            .into_iter()
            .find(|stream| stream.as_str() == text)
            .ok_or_else(|| format!("'{text}' is not a stream; use stdout or stderr"))
    }
}
