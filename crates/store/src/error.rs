//! Why the store could not do as asked.

use std::path::PathBuf;
use std::time::Duration;

use model::{BlobHash, TaskId};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("task {0} exists already with other content")]
    Conflict(TaskId),
    #[error("blob {0} does not exist")]
    NoBlob(BlobHash),
    #[error("the cursor belongs to another search")]
    ForeignCursor,
    #[error("the search was stopped after {} seconds; narrow it by user, status, executor or time", .limit.as_secs())]
    SearchTooLong { limit: Duration },
    #[error("no room left for the store in {path}")]
    Full { path: PathBuf },
    #[error(
        "the store in {path} is damaged: {detail}; restore a backup, or move the folder away to start empty"
    )]
    Corrupt { path: PathBuf, detail: String },
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
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may go better later.
    pub fn is_transient(&self) -> bool {
        match self {
            StoreError::Full { .. } | StoreError::Closed => true,
            StoreError::Io { .. } | StoreError::Database { .. } => true,
            StoreError::Conflict(_)
            | StoreError::NoBlob(_)
            | StoreError::ForeignCursor
            | StoreError::SearchTooLong { .. }
            | StoreError::Corrupt { .. }
            | StoreError::TooNew { .. }
            | StoreError::InUse { .. }
            | StoreError::Encode { .. }
            | StoreError::Decode { .. } => false,
        }
    }
}
