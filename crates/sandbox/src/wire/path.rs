//! Paths as bytes: serde refuses paths that are not UTF-8, the kernel does not.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserializer, Serializer};

use super::bytes;

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    bytes::serialize(path.as_os_str().as_bytes(), serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(PathBuf::from(OsString::from_vec(bytes::deserialize(
        deserializer,
    )?)))
}
