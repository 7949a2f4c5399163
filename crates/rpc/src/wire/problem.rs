//! Errors on the wire: a status code for tools that know only gRPC, and the whole error in its details.

use model::Invalid;
use prost::Message;
use tonic::{Code, Status};

use super::ids::{hash_in, hash_out, id_in, id_out};
use super::proto::{self, problem::Kind};
use crate::CallError;

pub(crate) fn problem_out(error: CallError) -> Status {
    let message = error.to_string();
    let (code, kind) = match error {
        CallError::Invalid(Invalid {
            field,
            problem,
            limit,
            actual,
        }) => (
            Code::InvalidArgument,
            Kind::Invalid(proto::Complaint {
                field,
                problem,
                limit,
                actual,
            }),
        ),
        CallError::NoTask(id) => (Code::NotFound, Kind::NoTask(id_out(id.0))),
        CallError::NoBlob(hash) => (Code::NotFound, Kind::NoBlob(hash_out(hash))),
        CallError::DamagedBlob(hash) => (Code::DataLoss, Kind::DamagedBlob(hash_out(hash))),
        CallError::Unreadable(what) => (Code::DataLoss, Kind::Unreadable(what)),
        CallError::Conflict(id) => (Code::AlreadyExists, Kind::Conflict(id_out(id.0))),
        CallError::WrongHash { named, actual } => (
            Code::InvalidArgument,
            Kind::WrongHash(proto::WrongHash {
                named: hash_out(named),
                actual: hash_out(actual),
            }),
        ),
        CallError::TooLarge { limit, actual } => (
            Code::OutOfRange,
            Kind::TooLarge(proto::TooLarge { limit, actual }),
        ),
        CallError::Busy(why) => (Code::ResourceExhausted, Kind::Busy(why)),
        CallError::Unavailable(why) => (Code::Unavailable, Kind::Unavailable(why)),
        CallError::Full(why) => (Code::ResourceExhausted, Kind::Full(why)),
        CallError::Internal(why) => (Code::Internal, Kind::Internal(why)),
    };
    let details = proto::Problem { kind: Some(kind) }.encode_to_vec();
    Status::with_details(code, message, details.into())
}

pub(crate) fn problem_in(status: Status) -> CallError {
    own_problem(&status).unwrap_or_else(|| foreign(&status))
}

/// `None` if it is not a judicator's word: the connection, a proxy, or a judicator of another version.
pub(crate) fn own_problem(status: &Status) -> Option<CallError> {
    let problem = proto::Problem::decode(status.details()).ok()?;
    kind_in(problem.kind?).ok()
}

fn kind_in(kind: Kind) -> Result<CallError, Invalid> {
    Ok(match kind {
        Kind::Invalid(proto::Complaint {
            field,
            problem,
            limit,
            actual,
        }) => CallError::Invalid(Invalid {
            field,
            problem,
            limit,
            actual,
        }),
        Kind::NoTask(id) => CallError::NoTask(id_in("id", &id)?),
        Kind::NoBlob(hash) => CallError::NoBlob(hash_in("hash", &hash)?),
        Kind::DamagedBlob(hash) => CallError::DamagedBlob(hash_in("hash", &hash)?),
        Kind::Unreadable(what) => CallError::Unreadable(what),
        Kind::Conflict(id) => CallError::Conflict(id_in("id", &id)?),
        Kind::WrongHash(hashes) => CallError::WrongHash {
            named: hash_in("named", &hashes.named)?,
            actual: hash_in("actual", &hashes.actual)?,
        },
        Kind::TooLarge(sizes) => CallError::TooLarge {
            limit: sizes.limit,
            actual: sizes.actual,
        },
        Kind::Busy(why) => CallError::Busy(why),
        Kind::Unavailable(why) => CallError::Unavailable(why),
        Kind::Full(why) => CallError::Full(why),
        Kind::Internal(why) => CallError::Internal(why),
    })
}

fn foreign(status: &Status) -> CallError {
    let message = status.message().to_string();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => CallError::Internal(format!(
            "the judicator refused the cluster secret: {message}; give this node the same secret file"
        )),
        Code::Unimplemented => CallError::Internal(format!(
            "the judicator does not know this call: {message}; use the same version on every node"
        )),
        Code::InvalidArgument | Code::OutOfRange => CallError::Internal(message),
        code => CallError::Unavailable(format!("{code}: {message}")),
    }
}
