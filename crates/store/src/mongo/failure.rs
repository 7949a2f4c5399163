//! Why one try of an operation failed, and whether a retry may succeed.

use mongodb::error::{Error, ErrorKind, WriteFailure};

use crate::StoreError;

/// Why one try of an operation of the MongoDB store failed; decides whether the operation is retried.
#[derive(Debug)]
pub(super) enum MongoFailure {
    /// The operation changed nothing, and a retry would be refused too.
    Refused(StoreError),
    /// A concurrent operation changed the documents between the read and the write.
    Conflict,
    /// The transaction does not fit into the server's cache. A smaller one may.
    TransactionTooLarge,
    /// No reply came in time. The operation may have taken effect.
    Timeout,
    Database(Error),
}

impl From<Error> for MongoFailure {
    fn from(error: Error) -> MongoFailure {
        match error_code(&error) {
            Some(WRITE_CONFLICT | DUPLICATE_KEY) => MongoFailure::Conflict,
            Some(TOO_LARGE_FOR_CACHE) => MongoFailure::TransactionTooLarge,
            _ => MongoFailure::Database(error),
        }
    }
}

impl From<StoreError> for MongoFailure {
    fn from(error: StoreError) -> MongoFailure {
        MongoFailure::Refused(error)
    }
}

pub(super) const DUPLICATE_KEY: i32 = 11000;
const WRITE_CONFLICT: i32 = 112;
pub(super) const TOO_LARGE_FOR_CACHE: i32 = 388;
pub(super) const MAX_TIME_EXPIRED: i32 = 50;
pub(super) const CHANGE_STREAM_FATAL_ERROR: i32 = 280;
pub(super) const CHANGE_STREAM_HISTORY_LOST: i32 = 286;
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;

/// Errors of the server that a retry cannot change: the command is wrong, unknown or not permitted.
const NON_RETRYABLE_CODES: [i32; 8] = [
    2,     // BadValue
    9,     // FailedToParse
    14,    // TypeMismatch
    40,    // ConflictingUpdateOperators
    59,    // CommandNotFound
    10334, // BSONObjectTooLarge
    UNAUTHORIZED,
    AUTHENTICATION_FAILED,
];

impl MongoFailure {
    /// Every operation is safe to repeat, so all failures are retried that may be temporary: no primary, a conflict, a
    /// lost reply.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            MongoFailure::Refused(_) => false,
            MongoFailure::Conflict | MongoFailure::Timeout | MongoFailure::TransactionTooLarge => true,
            MongoFailure::Database(error) => match &*error.kind {
                ErrorKind::InvalidArgument { .. }
                | ErrorKind::Authentication { .. }
                | ErrorKind::Bson(_)
                | ErrorKind::BsonSerialization(_)
                | ErrorKind::BsonDeserialization(_)
                | ErrorKind::IncompatibleServer { .. }
                | ErrorKind::Shutdown => false,
                _ => error_code(error).is_none_or(|error_code| !NON_RETRYABLE_CODES.contains(&error_code)),
            },
        }
    }

    pub(super) fn into_error(self, step: &'static str) -> StoreError {
        match self {
            MongoFailure::Refused(error) => error,
            MongoFailure::Conflict => StoreError::Contended { step },
            MongoFailure::TransactionTooLarge | MongoFailure::Timeout => StoreError::Timeout { step },
            MongoFailure::Database(error) => StoreError::Mongo {
                step,
                source: Box::new(error),
            },
        }
    }
}

/// The error code, if the server reported the error.
pub(super) fn error_code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => Some(error.code),
        _ => None,
    }
}

pub(super) fn is_authentication_error(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Authentication { .. })
        || matches!(error_code(error), Some(UNAUTHORIZED | AUTHENTICATION_FAILED))
}

/// Copies an error for each of the callers that share a transaction.
pub(super) fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Mongo { step, source } => StoreError::Mongo {
            step,
            source: source.clone(),
        },
        StoreError::Timeout { step } => StoreError::Timeout { step },
        StoreError::BatchTooLarge => StoreError::BatchTooLarge,
        StoreError::Panicked { step } => StoreError::Panicked { step },
        StoreError::Contended { step } => StoreError::Contended { step },
        StoreError::Unreadable { what, detail } => StoreError::Unreadable {
            what,
            detail: detail.clone(),
        },
        // No other error concerns a whole transaction.
        _ => StoreError::Closed,
    }
}
