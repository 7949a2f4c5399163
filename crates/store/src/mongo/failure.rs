//! Why an attempt came to nothing, and whether another may go better.

use mongodb::error::{Error, ErrorKind, WriteFailure};

use crate::StoreError;

#[derive(Debug)]
pub(super) enum Failure {
    /// It has changed nothing, and would be refused again.
    Refused(StoreError),
    /// What it had read was changed by another before it could write.
    Overtaken,
    /// The server cannot hold a transaction of this size. A smaller one may pass.
    TooLarge,
    /// Nothing was heard in time. Whether it took effect is not known.
    Silent,
    Database(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match code(&error) {
            Some(WRITE_CONFLICT | DUPLICATE_KEY) => Failure::Overtaken,
            Some(TOO_LARGE_FOR_CACHE) => Failure::TooLarge,
            _ => Failure::Database(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Refused(error)
    }
}

pub(super) const DUPLICATE_KEY: i32 = 11000;
const WRITE_CONFLICT: i32 = 112;
pub(super) const TOO_LARGE_FOR_CACHE: i32 = 388;
pub(super) const TOO_LONG: i32 = 50;
pub(super) const HISTORY_LOST: i32 = 286;
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;

/// Answers that no repetition changes: the command itself is wrong, or the server does not know it.
const HOPELESS: [i32; 8] = [
    2,     // BadValue
    9,     // FailedToParse
    14,    // TypeMismatch
    40,    // ConflictingUpdateOperators
    59,    // CommandNotFound
    10334, // BSONObjectTooLarge
    UNAUTHORIZED,
    AUTHENTICATION_FAILED,
];

impl Failure {
    /// All transitions are safe to repeat, so everything is repeated that has a chance to pass: a primary that
    /// is gone or not yet elected, a conflict, an answer that was lost.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Failure::Refused(_) => false,
            Failure::Overtaken | Failure::Silent | Failure::TooLarge => true,
            Failure::Database(error) => match &*error.kind {
                ErrorKind::InvalidArgument { .. }
                | ErrorKind::Authentication { .. }
                | ErrorKind::Bson(_)
                | ErrorKind::BsonSerialization(_)
                | ErrorKind::BsonDeserialization(_)
                | ErrorKind::IncompatibleServer { .. }
                | ErrorKind::Shutdown => false,
                _ => code(error).is_none_or(|code| !HOPELESS.contains(&code)),
            },
        }
    }

    pub(super) fn into_error(self, step: &'static str) -> StoreError {
        match self {
            Failure::Refused(error) => error,
            Failure::Overtaken => StoreError::Contended { step },
            Failure::TooLarge | Failure::Silent => StoreError::Silent { step },
            Failure::Database(error) => StoreError::Mongo {
                step,
                source: Box::new(error),
            },
        }
    }
}

/// What the server calls the error, if it was the server's.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => Some(error.code),
        _ => None,
    }
}

pub(super) fn is_login(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Authentication { .. })
        || matches!(code(error), Some(UNAUTHORIZED | AUTHENTICATION_FAILED))
}

/// The same error once more, for each of those who shared a transaction.
pub(super) fn repeat(error: &StoreError) -> StoreError {
    match error {
        StoreError::Mongo { step, source } => StoreError::Mongo {
            step,
            source: source.clone(),
        },
        StoreError::Silent { step } => StoreError::Silent { step },
        StoreError::TooMuch => StoreError::TooMuch,
        StoreError::Panicked { step } => StoreError::Panicked { step },
        StoreError::Contended { step } => StoreError::Contended { step },
        StoreError::Unreadable { what, detail } => StoreError::Unreadable {
            what,
            detail: detail.clone(),
        },
        // Nothing else is ever shared: a refusal has one caller.
        _ => StoreError::Closed,
    }
}
