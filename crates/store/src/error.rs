//! Why the store could not do as asked.

use std::path::PathBuf;
use std::time::Duration;

use model::{BlobHash, TaskId};
use supervise::{ComponentFailed, Failures};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("task {0} exists already with other content")]
    Conflict(TaskId),
    #[error("blob {0} does not exist")]
    NoBlob(BlobHash),
    #[error("blob {0} is damaged; put it again")]
    DamagedBlob(BlobHash),
    #[error("the cursor belongs to another search")]
    ForeignCursor,
    /// Not one task could be looked at in that time.
    #[error("the search was stopped after {} seconds without a result; the store is too slow now", .limit.as_secs())]
    SearchTooLong { limit: Duration },
    #[error("too many {what} wait already")]
    Busy { what: &'static str },
    #[error("no room left for the store in {path}")]
    Full { path: PathBuf },
    #[error(
        "the store in {path} is damaged: {detail}; restore a backup, or move the folder away to start empty"
    )]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "{path} was removed or replaced while it was in use: what is added now would be lost; stop the program, \
         restore a backup and start it again"
    )]
    Gone { path: PathBuf },
    #[error(
        "the store in {path} has schema version {found}, this program knows up to {known}; use a newer one"
    )]
    TooNew { path: PathBuf, found: i64, known: i64 },
    #[error("the store in {path} is in use by another process; stop that one, or choose another data folder")]
    InUse { path: PathBuf },
    #[error("could not {step} {path}")]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the database refused to {step}")]
    Database {
        step: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error(
        "{address} belongs to the replica set '{found}', not to '{expected}'; set mongodb.set to the name of the \
         set, or take the address off the list"
    )]
    OtherSet {
        address: String,
        expected: String,
        found: String,
    },
    #[error("{address} is a mongod that belongs to no replica set; start it with --replSet {expected}")]
    NoSet { address: String, expected: String },
    #[error("the replica set '{set}' does not let {user} in; check the user, its password and its rights")]
    Login {
        set: String,
        user: String,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    #[error(
        "no mongod of the replica set '{set}' can be reached at {}; start one there, or correct the addresses",
        .addresses.join(", ")
    )]
    Unreachable { set: String, addresses: Vec<String> },
    #[error("the replica set '{set}' has no primary now; a majority of its members must be up and connected")]
    NoPrimary { set: String },
    #[error("'{text}' is no address of a mongod; write HOST:PORT")]
    Address {
        text: String,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    #[error("could not {step}: the replica set did not answer in time")]
    Silent { step: &'static str },
    #[error("could not {step}: others changed the same again and again")]
    Contended { step: &'static str },
    #[error("could not {step}")]
    Mongo {
        step: &'static str,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    #[error("a stored {what} cannot be read: {detail}")]
    Unreadable { what: &'static str, detail: String },
    #[error("the {what} cannot be written down")]
    Encode {
        what: &'static str,
        #[source]
        source: postcard::Error,
    },
    #[error("a stored {what} cannot be read")]
    Decode {
        what: &'static str,
        #[source]
        source: postcard::Error,
    },
    #[error(
        "this is more than the database takes at once; add fewer tasks at a time, or put their files as blobs first"
    )]
    TooMuch,
    #[error("could not {step}: the program has a bug and panicked; its log says where")]
    Panicked { step: &'static str },
    #[error("the store is closed")]
    Closed,
    #[error("{0}; the process ends and is to be started again")]
    ComponentFailed(ComponentFailed),
}

/// A component's failure is told a moment after its callers have lost it.
const TELLING: Duration = Duration::from_secs(1);

impl StoreError {
    /// Why a component of the store does not answer.
    pub(crate) async fn of_lost(mut failures: Failures) -> StoreError {
        let told = tokio::time::timeout(TELLING, failures.wait()).await;
        told.map_or(StoreError::Closed, StoreError::ComponentFailed)
    }

    /// A spec or a result that makes no sense concerns only this task.
    pub(crate) fn of_task(self, id: TaskId) -> StoreError {
        match self {
            StoreError::Decode { what, source } => StoreError::Unreadable {
                what,
                detail: format!("{id}: {source}"),
            },
            other => other,
        }
    }

    /// Whether the same call may go better later.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Full { .. } | StoreError::Busy { .. } | StoreError::SearchTooLong { .. } => true,
            StoreError::Closed | StoreError::ComponentFailed(_) => true,
            StoreError::Io { .. } | StoreError::Database { .. } | StoreError::Mongo { .. } => true,
            StoreError::Unreachable { .. } | StoreError::NoPrimary { .. } => true,
            StoreError::Silent { .. } | StoreError::Contended { .. } => true,
            StoreError::Conflict(_)
            | StoreError::TooMuch
            | StoreError::NoBlob(_)
            | StoreError::DamagedBlob(_)
            | StoreError::ForeignCursor
            | StoreError::Corrupt { .. }
            | StoreError::Gone { .. }
            | StoreError::TooNew { .. }
            | StoreError::InUse { .. }
            | StoreError::OtherSet { .. }
            | StoreError::NoSet { .. }
            | StoreError::Login { .. }
            | StoreError::Address { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Encode { .. }
            | StoreError::Panicked { .. }
            | StoreError::Decode { .. } => false,
        }
    }
}
