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
