//! The record of a root: the small file beside its files that says what it is.

use std::path::Path;

use model::{BlobHash, RootName, UnixTime};
use serde::{Deserialize, Serialize};

use super::{RootStoreError, io_error};
use crate::unpack::DroppedItems;

/// What is recorded about a root when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRecord {
    /// The SHA-256 of the listing of the root's files: paths, kinds, modes, sizes, contents and link targets, but no times
    /// and no owners. Machines that import the same image have the same hash.
    #[serde(with = "hash_as_text")]
    pub sha256: BlobHash,
    /// The sizes of all files together. A file with several names counts for each of them.
    pub size: u64,
    /// The number of files, folders and links.
    pub entries: u64,
    /// When it was made, in microseconds since 1970.
    made: i64,
    /// Where it comes from, for people: the name of an archive, or a list of packages.
    pub source: String,
    #[serde(flatten)]
    pub dropped: DroppedItems,
}

impl RootRecord {
    pub(crate) fn new(
        sha256: BlobHash,
        (entries, size): (u64, u64),
        source: String,
        dropped: DroppedItems,
    ) -> RootRecord {
        RootRecord {
            sha256,
            size,
            entries,
            made: UnixTime::from(std::time::SystemTime::now()).0,
            source,
            dropped,
        }
    }

    pub fn made(&self) -> UnixTime {
        UnixTime(self.made)
    }

    pub(super) fn read(name: &RootName, path: &Path) -> Result<RootRecord, RootStoreError> {
        let bytes = std::fs::read(path).map_err(io_error("read", path))?;
        serde_json::from_slice(&bytes).map_err(|source| RootStoreError::DamagedRecord {
            name: name.clone(),
            path: path.to_path_buf(),
            source,
        })
    }
}

/// The hash as text in the record.
mod hash_as_text {
    use model::BlobHash;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &BlobHash, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(hash)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BlobHash, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| serde::de::Error::custom(format!("the hash {error}")))
    }
}
