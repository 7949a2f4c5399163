//! What a judicator writes about itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The value of a judicator's key. Members unknown here are left alone: a newer version may say more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) address: String,
    pub(super) version: String,
    /// Seconds since 1970, for people to read: nothing is decided by it.
    since: u64,
}

impl Record {
    pub(super) fn new(address: String, version: String, since: SystemTime) -> Record {
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Record {
            address,
            version,
            since,
        }
    }

    pub(super) fn since(&self) -> SystemTime {
        UNIX_EPOCH
            .checked_add(Duration::from_secs(self.since))
            .unwrap_or(UNIX_EPOCH)
    }

    pub(super) fn read(value: &[u8]) -> Result<Record, serde_json::Error> {
        serde_json::from_slice(value)
    }

    pub(super) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}
