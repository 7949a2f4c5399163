//! How the output of a command reaches the warden's owner: the first bytes of each stream through memory that both
//! processes share, the rest through files.
//!
//! `memory` is the shared memory and `overflow_file` creates the files. `owner_side` is what a warden's owner holds of
//! both, and `live` reads them while a command runs. The warden's side is `warden/capture`.

mod memory;
mod overflow_file;
mod owner_side;

mod live;

use serde::{Deserialize, Serialize};

pub use live::LiveOutput;
pub(crate) use memory::OutputMemory;
pub(crate) use owner_side::{OwnerOutput, wake};

/// How many bytes of each output stream a warden keeps in memory. A longer stream goes to a file.
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
