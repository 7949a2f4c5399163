//! The model's values as fields of documents.

use model::{Age, Attempt, BlobHash, ExecutorName, Moment, Seq, SessionId, Status, TaskId, UserName};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Uuid};

use super::failure::Failure;
use crate::StoreError;

/// What a value of the model is written as.
pub(super) trait Field {
    fn field(&self) -> Bson;
}

impl Field for TaskId {
    fn field(&self) -> Bson {
        uuid(self.0).into()
    }
}

impl Field for SessionId {
    fn field(&self) -> Bson {
        uuid(self.0).into()
    }
}

impl Field for BlobHash {
    fn field(&self) -> Bson {
        binary(self.0.to_vec()).into()
    }
}

impl Field for Status {
    fn field(&self) -> Bson {
        self.as_str().into()
    }
}

impl Field for UserName {
    fn field(&self) -> Bson {
        self.as_str().into()
    }
}

impl Field for ExecutorName {
    fn field(&self) -> Bson {
        self.as_str().into()
    }
}

impl Field for Moment {
    fn field(&self) -> Bson {
        self.0.into()
    }
}

impl Field for Age {
    fn field(&self) -> Bson {
        self.0.into()
    }
}

impl Field for Attempt {
    fn field(&self) -> Bson {
        i64::from(self.0).into()
    }
}

impl Field for Seq {
    /// Numbers are signed there. No session lives long enough to count that far.
    fn field(&self) -> Bson {
        i64::try_from(self.0).unwrap_or(i64::MAX).into()
    }
}

impl Field for u32 {
    fn field(&self) -> Bson {
        i64::from(*self).into()
    }
}

impl Field for String {
    fn field(&self) -> Bson {
        self.as_str().into()
    }
}

/// Null equals a field that is not there.
impl<T: Field> Field for Option<T> {
    fn field(&self) -> Bson {
        self.as_ref().map_or(Bson::Null, Field::field)
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

pub(super) fn blob_hash(bytes: &Binary) -> Result<BlobHash, Failure> {
    let hash = bytes.bytes.as_slice().try_into();
    hash.map(BlobHash)
        .map_err(|_| unreadable("blob", "its hash has another length"))
}

pub(super) fn executor_name(name: String) -> Result<ExecutorName, Failure> {
    ExecutorName::new(name).map_err(|error| unreadable("executor's name", error))
}

/// A count that is never negative.
pub(super) fn small(what: &'static str, number: i64) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|error| unreadable(what, error))
}

pub(super) fn large(what: &'static str, number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|error| unreadable(what, error))
}

pub(super) fn unreadable(what: &'static str, detail: impl ToString) -> Failure {
    Failure::Refused(StoreError::Unreadable {
        what,
        detail: detail.to_string(),
    })
}
