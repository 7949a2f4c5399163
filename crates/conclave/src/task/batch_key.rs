//! The key of a batch. The ids of its tasks are derived from it, so that a repeated batch adds no task twice.

use std::fmt;
use std::str::FromStr;

use model::TaskId;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The key of a batch of tasks for `conclave add --lines`, from which the ids of the tasks are derived.
///
/// It is a UUID rather than free text: others who guess the key could add tasks with these ids first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchKey(Uuid);

impl BatchKey {
    pub(crate) fn generate() -> BatchKey {
        BatchKey(Uuid::now_v7())
    }

    /// The id of the task on a line: a UUIDv7 with the timestamp of the key, so that the ids of a batch are sorted together.
    pub(crate) fn task_id(self, line: usize) -> TaskId {
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
        let key = Uuid::try_parse(text).map_err(|_| "is not a UUID; `uuidgen` prints one".to_string())?;
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
    fn task_ids_depend_on_key_and_line_only() {
        let key: BatchKey = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        assert_eq!(key.task_id(1), key.task_id(1));
        assert_ne!(key.task_id(1), key.task_id(2));
        assert_ne!(key.task_id(1), BatchKey::generate().task_id(1));
        let id = key.task_id(1).to_string();
        // Interrupted batches are repeated with these ids, so the derivation must never change.
        assert_eq!(id, "01890a5d-ac96-7e2c-8c25-29c408c0c689");
        assert!("nightly".parse::<BatchKey>().is_err());
    }
}
