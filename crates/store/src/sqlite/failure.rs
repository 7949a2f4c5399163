//! Failures of database operations, and the errors that callers get for them.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

use crate::StoreError;

/// Why an operation of the SQLite store failed. The variant decides about the other operations of the same group: a
/// refused operation has written nothing and concerns only its caller; every other failure rolls back the whole
/// transaction.
#[derive(Debug)]
pub(super) enum SqliteFailure {
    Refused(StoreError),
    /// A file operation failed, or the database returned wrong data.
    Storage(StoreError),
    /// SQLite reported an error.
    Database {
        step: &'static str,
        source: rusqlite::Error,
    },
}

/// An extension of rusqlite's results that adds the name of the failed step to an error.
pub(super) trait StepContext<T> {
    fn during(self, step: &'static str) -> Result<T, SqliteFailure>;
}

impl<T> StepContext<T> for rusqlite::Result<T> {
    fn during(self, step: &'static str) -> Result<T, SqliteFailure> {
        self.map_err(|source| SqliteFailure::Database { step, source })
    }
}

impl SqliteFailure {
    pub(super) fn into_error(self, folder: &Path) -> StoreError {
        match self {
            SqliteFailure::Refused(error) | SqliteFailure::Storage(error) => error,
            SqliteFailure::Database { step, source } => database_error(step, source, folder),
        }
    }
}

pub(super) fn database_error(step: &'static str, source: rusqlite::Error, folder: &Path) -> StoreError {
    let path = folder.to_path_buf();
    let Some(error) = source.sqlite_error() else {
        return StoreError::Database { step, source };
    };
    match error.code {
        ErrorCode::DiskFull => StoreError::DiskFull { path },
        // The WAL index is a file of its own. If there is no space for it, SQLite reports an I/O error.
        ErrorCode::SystemIoFailure if error.extended_code == SQLITE_IOERR_SHMSIZE => {
            StoreError::DiskFull { path }
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt {
            path,
            detail: format!("could not {step} in tasks.db: {source}"),
        },
        _ => StoreError::Database { step, source },
    }
}

/// Copies an error (`StoreError` is not `Clone`), for each caller whose operation was in the failed group.
pub(super) fn duplicate_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::DiskFull { path } => StoreError::DiskFull { path: path.clone() },
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
        // No other error concerns a whole group: a refusal has one caller.
        _ => StoreError::Closed,
    }
}
