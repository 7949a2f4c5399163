use bytes::Bytes;
use model::{
    BlobHash, ExecutorName, GroupName, InvalidField, LanguageName, NetworkName, ProblemName, RootName,
    SessionId, TaskId, UserName,
};
use uuid::Uuid;

/// Parses a task or session id from its 16 bytes.
pub(crate) fn parse_id<T: UuidId>(field: &str, bytes: &[u8]) -> Result<T, InvalidField> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => Ok(T::from_uuid(Uuid::from_bytes(bytes))),
        Err(_) => Err(InvalidField::over_limit(
            field,
            "an id has 16 bytes",
            16,
            bytes.len(),
        )),
    }
}

pub(crate) fn parse_hash(field: &str, bytes: &[u8]) -> Result<BlobHash, InvalidField> {
    match <[u8; 32]>::try_from(bytes) {
        Ok(bytes) => Ok(BlobHash(bytes)),
        Err(_) => Err(InvalidField::over_limit(
            field,
            "a hash has 32 bytes",
            32,
            bytes.len(),
        )),
    }
}

pub(crate) fn encode_id(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

pub(crate) fn encode_hash(hash: BlobHash) -> Bytes {
    Bytes::copy_from_slice(&hash.0)
}

pub(crate) fn parse_user(name: String) -> Result<UserName, InvalidField> {
    UserName::new(name).map_err(|error| InvalidField::new("user", error.to_string()))
}

pub(crate) fn parse_executor(name: String) -> Result<ExecutorName, InvalidField> {
    ExecutorName::new(name).map_err(|error| InvalidField::new("executor", error.to_string()))
}

pub(crate) fn parse_group(name: String) -> Result<GroupName, InvalidField> {
    GroupName::new(name).map_err(|error| InvalidField::new("group", error.to_string()))
}

pub(crate) fn parse_network(name: String) -> Result<NetworkName, InvalidField> {
    NetworkName::new(name).map_err(|error| InvalidField::new("network", error.to_string()))
}

pub(crate) fn parse_language(name: String) -> Result<LanguageName, InvalidField> {
    LanguageName::new(name).map_err(|error| InvalidField::new("language", error.to_string()))
}

pub(crate) fn parse_root(name: String) -> Result<RootName, InvalidField> {
    RootName::new(name).map_err(|error| InvalidField::new("root", error.to_string()))
}

pub(crate) fn parse_problem(name: String) -> Result<ProblemName, InvalidField> {
    ProblemName::new(name).map_err(|error| InvalidField::new("problem", error.to_string()))
}

/// An id of the model that is a UUID, so that one function parses all such ids in RPC messages.
pub(crate) trait UuidId {
    fn from_uuid(id: Uuid) -> Self;
}

impl UuidId for TaskId {
    fn from_uuid(id: Uuid) -> TaskId {
        TaskId(id)
    }
}

impl UuidId for SessionId {
    fn from_uuid(id: Uuid) -> SessionId {
        SessionId(id)
    }
}
