//! What a failed call says about the judicator that was asked.

use tonic::{Code, Status};

use crate::CallError;
use crate::wire::own_problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request is wrong, or what it names does not exist: any judicator would answer the same.
    Final,
    /// Another judicator may be able to do it. This one has much to do for the moment, and nothing is wrong with it.
    TryNext(Cause),
    /// Another judicator may be able to do it. This one is asked last for a while.
    Leave(Cause),
}

/// Why a judicator cannot do a call. The later ones tell an operator more: if none can do it, that one is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    Busy,
    /// No answer, or none of a judicator's: whether the call was done is not known.
    Unreachable,
    /// It says so itself: it stops, or its store does not answer.
    Unavailable,
    Internal,
    Full,
    OtherVersion,
    OtherSecret,
}

pub(super) fn verdict(status: &Status) -> Verdict {
    match own_problem(status) {
        Some(error) => of_error(&error),
        None => of_code(status.code()),
    }
}

pub(super) fn of_error(error: &CallError) -> Verdict {
    match error {
        CallError::Invalid(_)
        | CallError::NoTask(_)
        | CallError::NoBlob(_)
        // All judicators share one store.
        | CallError::DamagedBlob(_)
        | CallError::Unreadable(_)
        | CallError::Conflict(_)
        | CallError::WrongHash { .. }
        | CallError::TooLarge { .. } => Verdict::Final,
        CallError::Busy(_) => Verdict::TryNext(Cause::Busy),
        CallError::Unavailable(_) => Verdict::Leave(Cause::Unavailable),
        CallError::Full(_) => Verdict::Leave(Cause::Full),
        CallError::Internal(_) => Verdict::Leave(Cause::Internal),
    }
}

/// For what is not a judicator's own word: the guard of the secret, tonic, the connection, a proxy.
fn of_code(code: Code) -> Verdict {
    match code {
        Code::Unauthenticated | Code::PermissionDenied => Verdict::Leave(Cause::OtherSecret),
        Code::Unimplemented => Verdict::Leave(Cause::OtherVersion),
        // A message that tonic does not take for its size or form.
        Code::Ok | Code::InvalidArgument | Code::OutOfRange => Verdict::Final,
        Code::Internal | Code::DataLoss | Code::Unknown => Verdict::Leave(Cause::Internal),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted => Verdict::Leave(Cause::Unreachable),
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, Invalid, TaskId};

    use super::*;
    use crate::wire::problem_out;

    #[test]
    fn each_answer_of_a_judicator_has_its_verdict() {
        let check = |error: CallError, expected| {
            assert_eq!(verdict(&problem_out(error.clone())), expected, "{error}")
        };
        let (id, hash) = (TaskId::generate(), BlobHash([1; 32]));
        check(Invalid::new("user", "wrong").into(), Verdict::Final);
        check(CallError::NoTask(id), Verdict::Final);
        check(CallError::NoBlob(hash), Verdict::Final);
        check(CallError::DamagedBlob(hash), Verdict::Final);
        check(CallError::Unreadable("a row".into()), Verdict::Final);
        check(CallError::Conflict(id), Verdict::Final);
        check(
            CallError::WrongHash {
                named: hash,
                actual: hash,
            },
            Verdict::Final,
        );
        check(CallError::TooLarge { limit: 1, actual: 2 }, Verdict::Final);
        check(CallError::Busy("x".into()), Verdict::TryNext(Cause::Busy));
        check(
            CallError::Unavailable("x".into()),
            Verdict::Leave(Cause::Unavailable),
        );
        check(CallError::Full("x".into()), Verdict::Leave(Cause::Full));
        check(CallError::Internal("x".into()), Verdict::Leave(Cause::Internal));
    }

    #[test]
    fn each_code_without_a_judicators_word_has_its_verdict() {
        for (code, expected) in [
            (Code::Unauthenticated, Verdict::Leave(Cause::OtherSecret)),
            (Code::PermissionDenied, Verdict::Leave(Cause::OtherSecret)),
            (Code::Unimplemented, Verdict::Leave(Cause::OtherVersion)),
            (Code::Internal, Verdict::Leave(Cause::Internal)),
            (Code::Unknown, Verdict::Leave(Cause::Internal)),
            (Code::DataLoss, Verdict::Leave(Cause::Internal)),
            (Code::Unavailable, Verdict::Leave(Cause::Unreachable)),
            (Code::DeadlineExceeded, Verdict::Leave(Cause::Unreachable)),
            (Code::Cancelled, Verdict::Leave(Cause::Unreachable)),
            (Code::Aborted, Verdict::Leave(Cause::Unreachable)),
            (Code::NotFound, Verdict::Leave(Cause::Unreachable)),
            (Code::AlreadyExists, Verdict::Leave(Cause::Unreachable)),
            (Code::FailedPrecondition, Verdict::Leave(Cause::Unreachable)),
            (Code::ResourceExhausted, Verdict::Leave(Cause::Unreachable)),
            (Code::InvalidArgument, Verdict::Final),
            (Code::OutOfRange, Verdict::Final),
        ] {
            assert_eq!(verdict(&Status::new(code, "x")), expected, "{code:?}");
        }
    }
}
