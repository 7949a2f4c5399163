//! Temporary files of blobs that the store has not taken yet.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rpc::CallError;
use uuid::Uuid;

/// A temporary file of a blob that a judicator is receiving. Dropping it removes the file, unless the store has moved it.
pub(crate) struct IncomingFile(PathBuf);

impl IncomingFile {
    pub(crate) fn unique(folder: &Path) -> IncomingFile {
        IncomingFile(folder.join(Uuid::now_v7().to_string()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

pub(super) fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "could not remove a temporary blob file");
    }
}

pub(crate) fn write_error(path: &Path, error: io::Error) -> CallError {
    let text = format!("could not write {}: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => CallError::Full(text),
        _ => CallError::Unavailable(text),
    }
}
