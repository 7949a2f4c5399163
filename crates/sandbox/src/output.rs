//! How the output of a command reaches the warden's owner: the first bytes of each stream through memory that both
//! processes share. If a stream is longer, the warden hands its pipe over, and the owner reads the rest and writes a
//! file. So the warden, which has to end commands in time, never waits for a disk.
//!
//! `memory` is the shared memory and `overflow_file` creates and writes the files. `owner_side` is what a warden's owner
//! holds of both, `long_streams` reads the pipes, and `live` reads memory and files while a command runs. The warden's
//! side is `warden/capture`.

mod memory;
mod overflow_file;
mod owner_side;

mod long_streams;

mod live;

use serde::{Deserialize, Serialize};

pub use live::LiveOutput;
pub(crate) use long_streams::LongStreams;
pub(crate) use memory::OutputMemory;
pub(crate) use owner_side::{OwnerOutput, wake};

/// How many bytes of each output stream are kept in memory. A longer stream goes to a file.
pub const STREAM_HEAD: usize = 64 << 10;

/// One of the two streams to which a command writes its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StandardStream {
    Stdout,
    Stderr,
}

impl StandardStream {
    pub const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }
}
