//! What warden and cell say to each other.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::step::StepError;
use crate::warden::child::Rlimit;
use crate::wire;

/// To a stub that is parked, with the three standard streams as descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    #[serde(with = "wire::path")]
    pub(crate) directory: PathBuf,
    pub(crate) rlimits: Vec<Rlimit>,
}

/// From the cell. After its orders a stub says nothing more, unless it fails: exec closes the socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Parked,
    Failed(StepError),
}

/// From the cell's first process, on a pipe of its own: the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    /// As `wait` gives it.
    pub(super) status: i32,
    pub(super) company: Company,
}

/// Who was left in the cell beside its first process when the command had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    Nobody,
    Others,
}

impl Message {
    pub(super) const SIZE: usize = size_of::<i32>() + 1;

    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let [a, b, c, d] = self.status.to_ne_bytes();
        [a, b, c, d, (self.company == Company::Others).into()]
    }

    pub(super) fn decode([a, b, c, d, others]: [u8; Self::SIZE]) -> Self {
        Self {
            status: i32::from_ne_bytes([a, b, c, d]),
            company: match others {
                0 => Company::Nobody,
                _ => Company::Others,
            },
        }
    }
}
