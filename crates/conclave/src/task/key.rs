//! The key of a batch: the ids of its tasks follow from it, so that a repeated batch adds nothing twice.

use std::fmt;
use std::str::FromStr;

use model::TaskId;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A UUID and no free text: a key that others can guess would let them take the ids first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchKey(Uuid);

impl BatchKey {
    pub(crate) fn generate() -> BatchKey {
        BatchKey(Uuid::now_v7())
    }

    /// A UUIDv7 with the time of the key, so that stores sort it near the batch's other ids.
    pub(crate) fn id(self, line: usize) -> TaskId {
        let mut digest = Sha256::new();
        digest.update(self.0.as_bytes());
        digest.update((line as u64).to_be_bytes());
        let digest: [u8; 32] = digest.finalize().into();
        let mut random = [0; 10];
        random.copy_from_slice(&digest[..10]);
        let millis = (self.0.as_u128() >> 80) as u64;
        TaskId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

impl FromStr for BatchKey {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchKey, String> {
        let key = Uuid::try_parse(text).map_err(|_| "is not a UUID; `uuidgen` makes one".to_string())?;
        Ok(BatchKey(key))
    }
}

impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_key_and_line() {
        let key: BatchKey = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        assert_eq!(key.id(1), key.id(1));
        assert_ne!(key.id(1), key.id(2));
        assert_ne!(key.id(1), BatchKey::generate().id(1));
        let id = key.id(1).to_string();
        // Batches that were broken off are repeated with these ids: they must never change.
        assert_eq!(id, "01890a5d-ac96-7e2c-8c25-29c408c0c689");
        assert!("nightly".parse::<BatchKey>().is_err());
    }
}
