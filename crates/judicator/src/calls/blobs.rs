use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use model::BlobHash;
use rpc::{BlobFileSource, ByteStream, CallError};
use store::{BlobFile, StoreError};

use crate::Judicator;
use crate::error::call_error;
use crate::partial_uploads::{BlobReception, IncomingFile, write_error};

impl Judicator {
    /// If the sender of an upload that may be continued stalls or disconnects, what was received is kept. A gateway's clients
    /// cannot continue theirs, so nothing of those is kept.
    pub(super) async fn on_put_blob(
        &self,
        hash: BlobHash,
        offset: Option<u64>,
        bytes: ByteStream,
    ) -> Result<u64, CallError> {
        let may_be_kept = offset.is_some();
        let reception = self.partial_uploads.begin(hash, offset).await?;
        let reception = self.receive(reception, bytes).await?;
        let size = reception.size();
        let complete = reception.finish(&self.store.incoming_folder())?;
        let file = BlobFile {
            hash,
            size,
            path: complete.file.path().to_path_buf(),
        };
        if let Err(error) = self.store.put_blob(file).await {
            if error.is_transient() && !matches!(error, StoreError::DiskFull { .. }) {
                complete.keep();
            }
            return Err(call_error(error));
        }
        if may_be_kept && complete.is_temporary() {
            self.partial_uploads.remove_kept(hash).await;
        }
        self.blobs_changed.notify_one();
        Ok(size)
    }

    async fn receive(
        &self,
        mut reception: BlobReception,
        mut bytes: ByteStream,
    ) -> Result<BlobReception, CallError> {
        loop {
            let chunk = tokio::select! {
                chunk = bytes.next() => chunk,
                () = reception.yields() => {
                    let why = "another caller continues this upload, which made no progress";
                    return Err(CallError::Busy(why.into()));
                }
            };
            let Some(chunk) = chunk else {
                return Ok(reception);
            };
            let chunk = chunk?;
            let size = reception.size() + chunk.len() as u64;
            if let Err(error) = self.check_blob_size(size) {
                reception.discard();
                return Err(error);
            }
            if !chunk.is_empty() {
                reception = reception.write(chunk).await?;
            }
        }
    }

    fn check_blob_size(&self, actual: u64) -> Result<(), CallError> {
        match self.options.max_blob {
            limit if actual > limit => Err(CallError::TooLarge { limit, actual }),
            _ => Ok(()),
        }
    }

    pub(super) async fn on_partial_blob(&self, hash: BlobHash) -> Result<u64, CallError> {
        Ok(self.partial_uploads.kept_bytes(hash).await)
    }

    /// The file belongs to an executor in this process. It has computed the hash, and reads verify it, so the file is not read
    /// here.
    pub(super) async fn on_put_blob_file(&self, source: BlobFileSource) -> Result<(), CallError> {
        let BlobFileSource { hash, size, path } = source;
        self.check_blob_size(size)?;
        let folder = self.store.incoming_folder();
        let link = move || link_or_copy(&path, size, &folder);
        let linked = tokio::task::spawn_blocking(link).await;
        let incoming = linked.map_err(|_| CallError::Unavailable("the judicator is stopping".into()))??;
        let file = BlobFile {
            hash,
            size,
            path: incoming.path().to_path_buf(),
        };
        self.store.put_blob(file).await.map_err(call_error)?;
        self.blobs_changed.notify_one();
        Ok(())
    }

    /// From the beginning, the bytes are verified.
    pub(super) async fn on_get_blob(&self, hash: BlobHash, offset: u64) -> Result<ByteStream, CallError> {
        let changed = self.blobs_changed.clone();
        let refuse = move |error| {
            if matches!(error, StoreError::DamagedBlob(_)) {
                changed.notify_one();
            }
            call_error(error)
        };
        let bytes = match offset {
            0 => self.store.get_blob(hash).await,
            _ => self.store.get_blob_from(hash, offset).await,
        };
        let bytes = bytes.map_err(&refuse)?;
        let bytes = bytes.ok_or(CallError::NoBlob(hash))?;
        Ok(bytes.map_err(refuse).boxed())
    }
}

/// Copies the file only if it is on another file system, or the file system has no hard links.
fn link_or_copy(path: &Path, size: u64, folder: &Path) -> Result<IncomingFile, CallError> {
    let unreadable =
        |error: io::Error| CallError::Internal(format!("could not read {}: {error}", path.display()));
    let incoming = IncomingFile::unique(folder);
    match fs::hard_link(path, incoming.path()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(unreadable(error)),
        Err(_) => {
            fs::copy(path, incoming.path()).map_err(|error| write_error(incoming.path(), error))?;
        }
    }
    let actual = fs::metadata(incoming.path()).map_err(unreadable)?.len();
    if actual != size {
        let message = format!("{} has {actual} bytes, not {size}", path.display());
        return Err(CallError::Internal(message));
    }
    Ok(incoming)
}
