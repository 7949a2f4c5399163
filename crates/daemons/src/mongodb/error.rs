//! Why a daemon ends, or an operator's request was not carried out.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::admin::AdminError;
use super::admit::Refusal;
use super::etcd::EtcdError;
use super::notes::NoteError;
use crate::{PortError, ProgramError, StartError};

#[derive(Debug, Error)]
pub enum MongodbError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Note(#[from] NoteError),
    #[error(transparent)]
    Refusal(#[from] Refusal),
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Component(#[from] supervise::ComponentFailed),
    #[error("{how}; its log says why")]
    Ended { how: String },
    #[error("mongod did not answer for {silence:?} and was killed")]
    Hung { silence: Duration },
    #[error(
        "this node initiated a replica set, but another was quicker; nothing was kept in it. Its data is now in \
         {aside}, and the node joins with an empty folder"
    )]
    SetAside { aside: PathBuf },
    #[error("{name} is the last member of the replica set: without it, its data would be gone")]
    LastMember { name: String },
    #[error("no other member of the replica set has the data and answers; start them before {name} leaves")]
    NoOther { name: String },
    #[error(
        "the replica set needs {name}: without it, too few of {voters} voting members are there to be a majority. \
         Bring back {}, or `conclave remove` who is lost, first", .down.join(", ")
    )]
    Needed {
        name: String,
        voters: usize,
        /// With their states.
        down: Vec<String>,
    },
    #[error(
        "{name} is about to leave, but is still a member of the replica set, which may need it. Keep it running, \
         and run the same again"
    )]
    StillMember { name: String },
    #[error("no member of the replica set is named {name}; the members are {}", .known.join(", "))]
    NoSuchNode { name: String, known: Vec<String> },
    #[error("mongod of {name} answers at {address}: run `conclave leave` on that node, or stop it first")]
    StillThere { name: String, address: String },
}

impl MongodbError {
    /// Whether the same may go well a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            MongodbError::Etcd(_) => true,
            MongodbError::Admin(error) => !matches!(error, AdminError::Login { .. }),
            _ => false,
        }
    }
}
