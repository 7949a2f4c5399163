//! Why an operation on the database came to nothing, and what its caller is told.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::StoreError;

/// The difference decides about the others in the same commit: a refusal has touched nothing and concerns
/// only its caller; after a failure of the storage nothing in the transaction can be relied on.
#[derive(Debug)]
pub(super) enum Failure {
    Refused(StoreError),
    Storage(StoreError),
    Database {
        step: &'static str,
        source: rusqlite::Error,
    },
}

/// Names the step in which the database failed.
pub(super) trait During<T> {
    fn during(self, step: &'static str) -> Result<T, Failure>;
}

impl<T> During<T> for rusqlite::Result<T> {
    fn during(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|source| Failure::Database { step, source })
    }
}

impl Failure {
    pub(super) fn into_error(self, folder: &Path) -> StoreError {
        match self {
            Failure::Refused(error) | Failure::Storage(error) => error,
            Failure::Database { step, source } => database_error(step, source, folder),
        }
    }
}

pub(super) fn database_error(step: &'static str, source: rusqlite::Error, folder: &Path) -> StoreError {
    let path = folder.to_path_buf();
    let Some(error) = source.sqlite_error() else {
        return StoreError::Database { step, source };
    };
    match error.code {
        ErrorCode::DiskFull => StoreError::Full { path },
        // The log's index lies in a file of its own, and SQLite has no word for that one not having room.
        ErrorCode::SystemIoFailure if error.extended_code == SQLITE_IOERR_SHMSIZE => {
            StoreError::Full { path }
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt {
            path,
            detail: format!("could not {step} in tasks.db: {source}"),
        },
        _ => StoreError::Database { step, source },
    }
}

/// The same error once more, for each of those who shared a commit.
pub(super) fn repeat(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full { path } => StoreError::Full { path: path.clone() },
        StoreError::Corrupt { path, detail } => StoreError::Corrupt {
            path: path.clone(),
            detail: detail.clone(),
        },
        StoreError::Io { step, path, source } => StoreError::Io {
            step,
            path: path.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        },
        StoreError::Database { step, source } => {
            let code = source
                .sqlite_error()
                .copied()
                .unwrap_or(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR));
            let source = rusqlite::Error::SqliteFailure(code, Some(source.to_string()));
            StoreError::Database { step, source }
        }
        // Nothing else is ever shared: a refusal has one caller.
        _ => StoreError::Closed,
    }
}
