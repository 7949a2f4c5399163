use std::io::Error;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use model::{BlobHash, BlobHasher};
use rpc::{ByteStream, CallError};
use store::{BlobFile, StoreError};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::Judicator;
use crate::error::call_error;

impl Judicator {
    pub(super) async fn on_put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        let incoming = IncomingFile(self.store.incoming_folder().join(Uuid::now_v7().to_string()));
        let (actual, size) = self.receive(&incoming.0, bytes).await?;
        if actual != hash {
            return Err(CallError::WrongHash { named: hash, actual });
        }
        let file = BlobFile {
            hash,
            size,
            path: incoming.0.clone(),
        };
        self.store.put_blob(file).await.map_err(call_error)?;
        self.blobs_changed.notify_one();
        Ok(size)
    }

    async fn receive(&self, path: &Path, mut bytes: ByteStream) -> Result<(BlobHash, u64), CallError> {
        let failed = |error: Error| write_error(path, error);
        let mut file = File::create_new(path).await.map_err(failed)?;
        let mut hasher = BlobHasher::default();
        let mut size = 0;
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk?;
            size += chunk.len() as u64;
            if size > self.options.max_blob {
                return Err(CallError::TooLarge {
                    limit: self.options.max_blob,
                    actual: size,
                });
            }
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        Ok((hasher.finish(), size))
    }

    pub(super) async fn on_get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        let changed = self.blobs_changed.clone();
        let refuse = move |error| {
            if matches!(error, StoreError::DamagedBlob(_)) {
                changed.notify_one();
            }
            call_error(error)
        };
        let bytes = self.store.get_blob(hash).await.map_err(&refuse)?;
        let bytes = bytes.ok_or(CallError::NoBlob(hash))?;
        Ok(bytes.map_err(refuse).boxed())
    }
}

fn write_error(path: &Path, error: Error) -> CallError {
    let text = format!("could not write {}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => CallError::Full(text),
        _ => CallError::Unavailable(text),
    }
}

/// The temporary file of a blob that a judicator is receiving. Dropping it removes the file, unless the store has moved
/// it.
struct IncomingFile(PathBuf);

impl Drop for IncomingFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "could not remove a temporary blob file");
        }
    }
}
