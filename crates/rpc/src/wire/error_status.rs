//! Errors on the wire: a gRPC status code for generic tools, and the whole error in the details of the status.

use model::{InvalidField, TaskForm};
use prost::Message;
use tonic::{Code, Status};

use super::ParseMessage;
use super::ids::{encode_hash, encode_id, parse_executor, parse_hash, parse_id};
use super::proto::{self, problem::Kind};
use crate::CallError;

pub(crate) fn status_from_error(error: CallError) -> Status {
    let message = error.to_string();
    let (code, kind) = match error {
        CallError::Invalid(InvalidField {
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
        CallError::NoTask(id) => (Code::NotFound, Kind::NoTask(encode_id(id.0))),
        CallError::NoBlob(hash) => (Code::NotFound, Kind::NoBlob(encode_hash(hash))),
        CallError::DamagedBlob(hash) => (Code::DataLoss, Kind::DamagedBlob(encode_hash(hash))),
        CallError::NoGroup(key) => (Code::NotFound, Kind::NoGroup(key.into())),
        CallError::NoExecutor(name) => (Code::NotFound, Kind::NoExecutor(name.to_string())),
        CallError::NotOwner(problem) => (Code::PermissionDenied, Kind::NotOwner(problem.into())),
        CallError::NotDone(id) => (Code::FailedPrecondition, Kind::NotDone(encode_id(id.0))),
        CallError::NewerForm(form) => (Code::Unimplemented, Kind::NewerForm(form.0)),
        CallError::Unreadable(what) => (Code::DataLoss, Kind::Unreadable(what)),
        CallError::Conflict(id) => (Code::AlreadyExists, Kind::Conflict(encode_id(id.0))),
        CallError::WrongHash { named, actual } => (
            Code::InvalidArgument,
            Kind::WrongHash(proto::WrongHash {
                named: encode_hash(named),
                actual: encode_hash(actual),
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

pub(crate) fn error_from_status(status: Status) -> CallError {
    judicator_error(&status).unwrap_or_else(|| transport_error(&status))
}

/// The error that a judicator put into the status. `None` if the status comes from the connection, a proxy, or a judicator
/// of another version.
pub(crate) fn judicator_error(status: &Status) -> Option<CallError> {
    let problem = proto::Problem::decode(status.details()).ok()?;
    parse_kind(problem.kind?).ok()
}

fn parse_kind(kind: Kind) -> Result<CallError, InvalidField> {
    Ok(match kind {
        Kind::Invalid(proto::Complaint {
            field,
            problem,
            limit,
            actual,
        }) => CallError::Invalid(InvalidField {
            field,
            problem,
            limit,
            actual,
        }),
        Kind::NoTask(id) => CallError::NoTask(parse_id("id", &id)?),
        Kind::NoBlob(hash) => CallError::NoBlob(parse_hash("hash", &hash)?),
        Kind::DamagedBlob(hash) => CallError::DamagedBlob(parse_hash("hash", &hash)?),
        Kind::NoGroup(key) => CallError::NoGroup(key.parse()?),
        Kind::NoExecutor(name) => CallError::NoExecutor(parse_executor(name)?),
        Kind::NotOwner(problem) => CallError::NotOwner(problem.parse()?),
        Kind::NotDone(id) => CallError::NotDone(parse_id("id", &id)?),
        Kind::NewerForm(form) => CallError::NewerForm(TaskForm(form)),
        Kind::Unreadable(what) => CallError::Unreadable(what),
        Kind::Conflict(id) => CallError::Conflict(parse_id("id", &id)?),
        Kind::WrongHash(hashes) => CallError::WrongHash {
            named: parse_hash("named", &hashes.named)?,
            actual: parse_hash("actual", &hashes.actual)?,
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

/// An error for a status that no judicator made.
fn transport_error(status: &Status) -> CallError {
    let message = status.message().to_string();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => CallError::Internal(format!(
            "the judicator refused the cluster secret: {message}; give this node the same secret file"
        )),
        Code::Unimplemented => CallError::Internal(format!(
            "the judicator does not know this call: {message}; run the same Conclave version on every node"
        )),
        Code::InvalidArgument | Code::OutOfRange => CallError::Internal(message),
        code => CallError::Unavailable(format!("{code}: {message}")),
    }
}
