use bytes::Bytes;
use model::{BlobHash, ExecutorName, Invalid, NetworkName, SessionId, TaskId, UserName};
use uuid::Uuid;

/// An id of either kind from its 16 bytes.
pub(crate) fn id_in<T: From16>(field: &str, bytes: &[u8]) -> Result<T, Invalid> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(bytes) => Ok(T::from_uuid(Uuid::from_bytes(bytes))),
        Err(_) => Err(Invalid::beyond(field, "an id has 16 bytes", 16, bytes.len())),
    }
}

pub(crate) fn hash_in(field: &str, bytes: &[u8]) -> Result<BlobHash, Invalid> {
    match <[u8; 32]>::try_from(bytes) {
        Ok(bytes) => Ok(BlobHash(bytes)),
        Err(_) => Err(Invalid::beyond(field, "a hash has 32 bytes", 32, bytes.len())),
    }
}

pub(crate) fn id_out(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

pub(crate) fn hash_out(hash: BlobHash) -> Bytes {
    Bytes::copy_from_slice(&hash.0)
}

pub(crate) fn user_in(name: String) -> Result<UserName, Invalid> {
    UserName::new(name).map_err(|wrong| Invalid::new("user", wrong.to_string()))
}

pub(crate) fn executor_in(name: String) -> Result<ExecutorName, Invalid> {
    ExecutorName::new(name).map_err(|wrong| Invalid::new("executor", wrong.to_string()))
}

pub(crate) fn network_in(name: String) -> Result<NetworkName, Invalid> {
    NetworkName::new(name).map_err(|wrong| Invalid::new("network", wrong.to_string()))
}

pub(crate) trait From16 {
    fn from_uuid(id: Uuid) -> Self;
}

impl From16 for TaskId {
    fn from_uuid(id: Uuid) -> TaskId {
        TaskId(id)
    }
}

impl From16 for SessionId {
    fn from_uuid(id: Uuid) -> SessionId {
        SessionId(id)
    }
}
