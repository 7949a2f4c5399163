//! The errors of a store.

use std::path::PathBuf;
use std::time::Duration;

use model::{BlobHash, ProblemRef, TaskForm, TaskId, UserName};
use supervise::{ComponentFailure, FailureWatch};
use thiserror::Error;

/// Why an operation of a task store, SQLite or MongoDB, failed or was refused.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("task {0} exists already with other content")]
    Conflict(TaskId),
    #[error("blob {0} does not exist")]
    BlobNotFound(BlobHash),
    #[error("blob {0} is damaged; put it again")]
    DamagedBlob(BlobHash),
    #[error("the problem {} belongs to {}; only that user and operators may replace or remove it", .0.name, .0.owner)]
    NotOwner(ProblemRef),
    #[error("{owner} has {limit} problems already, which is the most that a user may have; remove one first")]
    TooManyProblemsOfOwner { owner: UserName, limit: u32 },
    #[error("there are {limit} problems already, which is the most that the system keeps; remove one first")]
    TooManyProblems { limit: u32 },
    /// The task is left to newer nodes.
    #[error("the task has form {0}, which this version of Conclave does not know; upgrade Conclave")]
    NewerForm(TaskForm),
    #[error("the cursor belongs to another search")]
    ForeignCursor,
    /// The search examined no task within the time limit.
    #[error(
        "search timed out after {} seconds without a result: the store is overloaded; try again later",
        .limit.as_secs()
    )]
    SearchTimeout { limit: Duration },
    #[error("too many {what} are waiting; try again later")]
    Busy { what: &'static str },
    #[error("no space left on device for the store in {path}")]
    DiskFull { path: PathBuf },
    #[error(
        "the store in {path} is damaged: {detail}; restore a backup, or move the folder away to start empty"
    )]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "{path} was removed or replaced while the store was open, so new tasks would be lost; stop the program, \
         restore a backup and start it again"
    )]
    FilesReplaced { path: PathBuf },
    #[error(
        "the store in {path} has schema version {found}, but this program supports versions up to {known}; upgrade \
         Conclave"
    )]
    SchemaTooNew { path: PathBuf, found: i64, known: i64 },
    #[error(
        "the store in {path} is in use by another process; stop that process or choose another data folder"
    )]
    InUse { path: PathBuf },
    #[error("could not {step} {path}")]
    Io {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("SQLite error: could not {step}")]
    Database {
        step: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error(
        "{address} is a member of the replica set '{found}', not of '{expected}'; set mongodb.set to the name of the \
         replica set, or remove the address"
    )]
    WrongReplicaSet {
        address: String,
        expected: String,
        found: String,
    },
    #[error("{address} is a mongod without a replica set; start it with --replSet {expected}")]
    NotInReplicaSet { address: String, expected: String },
    #[error(
        "authentication of user {user} failed on the replica set '{set}'; check the user, its password and its roles"
    )]
    AuthenticationFailed {
        set: String,
        user: String,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    #[error(
        "no member of the replica set '{set}' is reachable at {}; start one there or correct the addresses",
        .addresses.join(", ")
    )]
    Unreachable { set: String, addresses: Vec<String> },
    #[error("the replica set '{set}' has no primary; a majority of its members must be up and connected")]
    NoPrimary { set: String },
    #[error("'{text}' is not a mongod address; write HOST:PORT")]
    InvalidAddress {
        text: String,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    #[error("could not {step}: the replica set did not answer in time")]
    Timeout { step: &'static str },
    #[error("could not {step}: write conflicts persisted after all retries")]
    Contended { step: &'static str },
    #[error("could not {step}")]
    Mongo {
        step: &'static str,
        #[source]
        source: Box<mongodb::error::Error>,
    },
    /// A stored row exists, but holds values that this program never writes.
    #[error("a stored {what} is unreadable: {detail}")]
    Unreadable { what: &'static str, detail: String },
    #[error("could not encode the {what}")]
    Encode {
        what: &'static str,
        #[source]
        source: postcard::Error,
    },
    #[error("could not decode a stored {what}")]
    Decode {
        what: &'static str,
        #[source]
        source: postcard::Error,
    },
    #[error(
        "the batch is too large for one database transaction; add fewer tasks at a time, or upload their files as \
         blobs first"
    )]
    BatchTooLarge,
    #[error("could not {step}: a bug in the program caused a panic; see its log")]
    Panicked { step: &'static str },
    #[error("the store is closed")]
    Closed,
    #[error("{0}; the process is exiting and must be restarted")]
    ComponentFailed(ComponentFailure),
}

/// A caller can lose its connection to a component shortly before the component's failure is published.
const FAILURE_REPORT_TIMEOUT: Duration = Duration::from_secs(1);

impl StoreError {
    /// The error for a caller whose channel to a component of the store closed without an answer.
    pub(crate) async fn component_lost(mut failures: FailureWatch) -> StoreError {
        let failure = tokio::time::timeout(FAILURE_REPORT_TIMEOUT, failures.wait()).await;
        failure.map_or(StoreError::Closed, StoreError::ComponentFailed)
    }

    /// Turns a decoding error into one that names the task.
    pub(crate) fn for_task(self, id: TaskId) -> StoreError {
        match self {
            StoreError::Decode { what, source } => StoreError::Unreadable {
                what,
                detail: format!("{id}: {source}"),
            },
            other => other,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::DiskFull { .. } | StoreError::Busy { .. } | StoreError::SearchTimeout { .. } => true,
            StoreError::Closed | StoreError::ComponentFailed(_) => true,
            StoreError::Io { .. } | StoreError::Database { .. } | StoreError::Mongo { .. } => true,
            StoreError::Unreachable { .. } | StoreError::NoPrimary { .. } => true,
            StoreError::Timeout { .. } | StoreError::Contended { .. } => true,
            StoreError::Conflict(_)
            | StoreError::BatchTooLarge
            | StoreError::BlobNotFound(_)
            | StoreError::DamagedBlob(_)
            | StoreError::NotOwner(_)
            | StoreError::TooManyProblemsOfOwner { .. }
            | StoreError::TooManyProblems { .. }
            | StoreError::NewerForm(_)
            | StoreError::ForeignCursor
            | StoreError::Corrupt { .. }
            | StoreError::FilesReplaced { .. }
            | StoreError::SchemaTooNew { .. }
            | StoreError::InUse { .. }
            | StoreError::WrongReplicaSet { .. }
            | StoreError::NotInReplicaSet { .. }
            | StoreError::AuthenticationFailed { .. }
            | StoreError::InvalidAddress { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Encode { .. }
            | StoreError::Panicked { .. }
            | StoreError::Decode { .. } => false,
        }
    }
}
