//! Decides, from the failure of a call, whether to ask another judicator.

use tonic::{Code, Status};

use crate::CallError;
use crate::wire::{judicator_error, status_from_error};

/// What the RPC client does after a judicator has failed a call: return the error, or ask the next judicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailoverDecision {
    /// The request is wrong, or it names something that does not exist. Every judicator would answer the same.
    ReturnError,
    /// Another judicator may be able to handle the call. This one is healthy, but busy.
    TryNext(FailureCause),
    /// Another judicator may be able to handle the call. This one is asked last for a while.
    Suspend(FailureCause),
}

/// Why a judicator failed a call of the RPC client, in rising order of use to an operator. If all judicators fail, the
/// error with the highest cause is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureCause {
    Busy,
    /// No answer from a judicator. It is unknown whether the call was done.
    Unreachable,
    /// The judicator reports it: it is stopping, or its store does not answer.
    Unavailable,
    Internal,
    Full,
    VersionMismatch,
    SecretMismatch,
}

pub(super) fn classify_status(status: &Status) -> FailoverDecision {
    match judicator_error(status) {
        Some(error) => classify_error(&error),
        None => classify_code(status.code()),
    }
}

pub(super) fn classify_error(error: &CallError) -> FailoverDecision {
    match error {
        CallError::Invalid(_)
        | CallError::NoTask(_)
        | CallError::NoGroup(_)
        | CallError::NoExecutor(_)
        | CallError::NotOwner(_)
        | CallError::NotDone(_)
        | CallError::NoBlob(_)
        // The same at every judicator, because they share one store.
        | CallError::DamagedBlob(_)
        | CallError::Unreadable(_)
        | CallError::Conflict(_)
        | CallError::WrongHash { .. }
        | CallError::TooLarge { .. } => FailoverDecision::ReturnError,
        CallError::Busy(_) => FailoverDecision::TryNext(FailureCause::Busy),
        CallError::NewerForm(_) => FailoverDecision::TryNext(FailureCause::VersionMismatch),
        CallError::Unavailable(_) => FailoverDecision::Suspend(FailureCause::Unavailable),
        CallError::Full(_) => FailoverDecision::Suspend(FailureCause::Full),
        CallError::Internal(_) => FailoverDecision::Suspend(FailureCause::Internal),
    }
}

/// For errors that do not come from a judicator's code: the check of the secret, tonic, the connection, a proxy.
fn classify_code(code: Code) -> FailoverDecision {
    match code {
        Code::Unauthenticated | Code::PermissionDenied => {
            FailoverDecision::Suspend(FailureCause::SecretMismatch)
        }
        Code::Unimplemented => FailoverDecision::Suspend(FailureCause::VersionMismatch),
        // tonic refuses the message because of its size or encoding.
        Code::Ok | Code::InvalidArgument | Code::OutOfRange => FailoverDecision::ReturnError,
        Code::Internal | Code::DataLoss | Code::Unknown => FailoverDecision::Suspend(FailureCause::Internal),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted => FailoverDecision::Suspend(FailureCause::Unreachable),
    }
}

/// For a call that judicators of the previous version do not have. They are healthy, so no other call may be moved away from
/// them in the middle of an upgrade.
pub(super) fn busy_if_unimplemented(status: Status) -> Status {
    match (judicator_error(&status), status.code()) {
        (None, Code::Unimplemented) => {
            let why = "the judicator does not have this call yet; upgrade Conclave on its node";
            status_from_error(CallError::Busy(why.into()))
        }
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, InvalidField, TaskId};

    use super::*;

    #[test]
    fn each_error_of_a_judicator_has_a_decision() {
        let check = |error: CallError, expected| {
            assert_eq!(
                classify_status(&status_from_error(error.clone())),
                expected,
                "{error}"
            )
        };
        let (id, hash) = (TaskId(uuid::Uuid::now_v7()), BlobHash([1; 32]));
        check(
            InvalidField::new("user", "wrong").into(),
            FailoverDecision::ReturnError,
        );
        check(CallError::NoTask(id), FailoverDecision::ReturnError);
        check(CallError::NoBlob(hash), FailoverDecision::ReturnError);
        check(CallError::DamagedBlob(hash), FailoverDecision::ReturnError);
        check(
            CallError::Unreadable("a row".into()),
            FailoverDecision::ReturnError,
        );
        check(CallError::Conflict(id), FailoverDecision::ReturnError);
        check(
            CallError::WrongHash {
                named: hash,
                actual: hash,
            },
            FailoverDecision::ReturnError,
        );
        check(
            CallError::TooLarge { limit: 1, actual: 2 },
            FailoverDecision::ReturnError,
        );
        check(
            CallError::Busy("x".into()),
            FailoverDecision::TryNext(FailureCause::Busy),
        );
        check(
            CallError::Unavailable("x".into()),
            FailoverDecision::Suspend(FailureCause::Unavailable),
        );
        check(
            CallError::Full("x".into()),
            FailoverDecision::Suspend(FailureCause::Full),
        );
        check(
            CallError::Internal("x".into()),
            FailoverDecision::Suspend(FailureCause::Internal),
        );
    }

    #[test]
    fn each_status_code_without_an_error_of_a_judicator_has_a_decision() {
        for (code, expected) in [
            (
                Code::Unauthenticated,
                FailoverDecision::Suspend(FailureCause::SecretMismatch),
            ),
            (
                Code::PermissionDenied,
                FailoverDecision::Suspend(FailureCause::SecretMismatch),
            ),
            (
                Code::Unimplemented,
                FailoverDecision::Suspend(FailureCause::VersionMismatch),
            ),
            (Code::Internal, FailoverDecision::Suspend(FailureCause::Internal)),
            (Code::Unknown, FailoverDecision::Suspend(FailureCause::Internal)),
            (Code::DataLoss, FailoverDecision::Suspend(FailureCause::Internal)),
            (
                Code::Unavailable,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::DeadlineExceeded,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::Cancelled,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::Aborted,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::NotFound,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::AlreadyExists,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::FailedPrecondition,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (
                Code::ResourceExhausted,
                FailoverDecision::Suspend(FailureCause::Unreachable),
            ),
            (Code::InvalidArgument, FailoverDecision::ReturnError),
            (Code::OutOfRange, FailoverDecision::ReturnError),
        ] {
            assert_eq!(classify_status(&Status::new(code, "x")), expected, "{code:?}");
        }
    }

    #[test]
    fn a_judicator_without_a_new_call_stays_in_use() {
        let check = |status: Status, expected| {
            assert_eq!(classify_status(&busy_if_unimplemented(status)), expected);
        };
        let busy = FailoverDecision::TryNext(FailureCause::Busy);
        check(Status::unimplemented("no such method"), busy);
        let unreachable = FailoverDecision::Suspend(FailureCause::Unreachable);
        check(Status::unavailable("connection refused"), unreachable);
    }
}
