//! Why the mongod daemon, or an operator's command to it, failed.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::admin::MongodCommandError;
use super::record_store::RecordStoreError;
use super::start_check::MongodStartRefusal;
use crate::state_file::StateFileError;
use crate::{PortError, ProgramError, ServerStartError};

/// Why the mongod daemon ended, or why a node could not leave the replica set or be removed from it.
#[derive(Debug, Error)]
pub enum MongodbDaemonError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    StartServer(#[from] ServerStartError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error(transparent)]
    Refused(#[from] MongodStartRefusal),
    #[error(transparent)]
    Etcd(#[from] RecordStoreError),
    #[error(transparent)]
    Mongod(#[from] MongodCommandError),
    #[error(transparent)]
    Component(#[from] supervise::ComponentFailure),
    #[error("{exit}; see its log for the reason")]
    Exited { exit: String },
    #[error("mongod did not answer for {silence:?} and was killed")]
    Hung { silence: Duration },
    #[error(
        "this node initiated a replica set, but another node's set was confirmed first. Nothing was stored in this \
         one; its data was moved to {aside}, and the node joins the other set with an empty folder"
    )]
    MovedAside { aside: PathBuf },
    #[error("{name} is the last member of the replica set: without it, the data would be lost")]
    LastMember { name: String },
    #[error(
        "no other member of the replica set has the data and answers; start the others before {name} leaves"
    )]
    NoOtherMember { name: String },
    #[error(
        "the replica set needs {name}: without it, too few of {voters} voting members are available for a majority. \
         First bring back {}, or `conclave remove` nodes that are lost", .unavailable.join(", ")
    )]
    NeededForMajority {
        name: String,
        voters: usize,
        /// The names of the members that are not available, with their states.
        unavailable: Vec<String>,
    },
    #[error(
        "{name} is about to leave, but is still a member of the replica set, which may need it. Keep it running, \
         and run the same command again"
    )]
    StillMember { name: String },
    #[error("no member of the replica set is named {name}; the members are {}", .known.join(", "))]
    NoSuchMember { name: String, known: Vec<String> },
    #[error("mongod of {name} answers at {address}: run `conclave leave` on that node, or stop it first")]
    StillAlive { name: String, address: String },
}

impl MongodbDaemonError {
    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            MongodbDaemonError::Etcd(_) => true,
            MongodbDaemonError::Mongod(error) => !matches!(error, MongodCommandError::Login { .. }),
            _ => false,
        }
    }
}
