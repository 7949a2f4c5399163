//! Conversions between values of the model and BSON.

use model::{
    AttemptNumber, BlobHash, ExecutorName, GroupName, OutcomeReason, ReportSeq, SessionId, StoreAge, TaskId,
    TaskStatus, UnixTime, UserName,
};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Uuid};

use super::failure::MongoFailure;
use crate::StoreError;

/// The conversion of a value of `model` to the BSON value that the MongoDB store writes for it.
pub(super) trait ToBson {
    fn to_bson(&self) -> Bson;
}

impl ToBson for TaskId {
    fn to_bson(&self) -> Bson {
        uuid(self.0).into()
    }
}

impl ToBson for SessionId {
    fn to_bson(&self) -> Bson {
        uuid(self.0).into()
    }
}

impl ToBson for BlobHash {
    fn to_bson(&self) -> Bson {
        binary(self.0.to_vec()).into()
    }
}

impl ToBson for TaskStatus {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

impl ToBson for OutcomeReason {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

impl ToBson for GroupName {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

impl ToBson for UserName {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

impl ToBson for ExecutorName {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

impl ToBson for UnixTime {
    fn to_bson(&self) -> Bson {
        self.0.into()
    }
}

impl ToBson for StoreAge {
    fn to_bson(&self) -> Bson {
        self.0.into()
    }
}

impl ToBson for AttemptNumber {
    fn to_bson(&self) -> Bson {
        i64::from(self.0).into()
    }
}

impl ToBson for ReportSeq {
    /// BSON has only signed numbers. No session sends enough reports to exceed them.
    fn to_bson(&self) -> Bson {
        i64::try_from(self.0).unwrap_or(i64::MAX).into()
    }
}

impl ToBson for bool {
    fn to_bson(&self) -> Bson {
        (*self).into()
    }
}

impl ToBson for u32 {
    fn to_bson(&self) -> Bson {
        i64::from(*self).into()
    }
}

impl ToBson for String {
    fn to_bson(&self) -> Bson {
        self.as_str().into()
    }
}

/// In a condition, null matches a field that is absent.
impl<T: ToBson> ToBson for Option<T> {
    fn to_bson(&self) -> Bson {
        self.as_ref().map_or(Bson::Null, ToBson::to_bson)
    }
}

pub(super) fn uuid(id: uuid::Uuid) -> Uuid {
    Uuid::from_bytes(id.into_bytes())
}

pub(super) fn binary(bytes: Vec<u8>) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes,
    }
}

pub(super) fn task_id(id: Uuid) -> TaskId {
    TaskId(uuid::Uuid::from_bytes(id.bytes()))
}

pub(super) fn session_id(id: Uuid) -> SessionId {
    SessionId(uuid::Uuid::from_bytes(id.bytes()))
}

pub(super) fn blob_hash(bytes: &Binary) -> Result<BlobHash, MongoFailure> {
    let hash = bytes.bytes.as_slice().try_into();
    hash.map(BlobHash)
        .map_err(|_| unreadable("blob", "its hash is not 32 bytes long"))
}

pub(super) fn executor_name(name: String) -> Result<ExecutorName, MongoFailure> {
    ExecutorName::new(name).map_err(|error| unreadable("executor's name", error))
}

/// Reads a number that must not be negative. `what` names it in the error.
pub(super) fn to_u32(what: &'static str, number: i64) -> Result<u32, MongoFailure> {
    u32::try_from(number).map_err(|error| unreadable(what, error))
}

/// The same as [`to_u32`] for larger numbers.
pub(super) fn to_u64(what: &'static str, number: i64) -> Result<u64, MongoFailure> {
    u64::try_from(number).map_err(|error| unreadable(what, error))
}

pub(super) fn unreadable(what: &'static str, detail: impl ToString) -> MongoFailure {
    MongoFailure::Refused(StoreError::Unreadable {
        what,
        detail: detail.to_string(),
    })
}
