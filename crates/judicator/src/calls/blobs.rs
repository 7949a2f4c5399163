use std::io::Error;
use std::path::{Path, PathBuf};

use futures::{StreamExt, TryStreamExt};
use model::BlobHash;
use rpc::{ByteStream, CallError};
use sha2::{Digest, Sha256};
use store::{BlobFile, StoreError};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::Judicator;
use crate::error::refusal;

impl Judicator {
    pub(super) async fn on_put_blob(&self, hash: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        let half = HalfWritten(self.store.incoming().join(Uuid::now_v7().to_string()));
        let (actual, size) = self.receive(&half.0, bytes).await?;
        if actual != hash {
            return Err(CallError::WrongHash { named: hash, actual });
        }
        let file = BlobFile {
            hash,
            size,
            path: half.0.clone(),
        };
        self.store.put_blob(file).await.map_err(refusal)?;
        self.blobs_changed.notify_one();
        Ok(size)
    }

    async fn receive(&self, path: &Path, mut bytes: ByteStream) -> Result<(BlobHash, u64), CallError> {
        let failed = |error: Error| cannot_write(path, error);
        let mut file = File::create_new(path).await.map_err(failed)?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        while let Some(part) = bytes.next().await {
            let part = part?;
            size += part.len() as u64;
            if size > self.options.max_blob {
                return Err(CallError::TooLarge {
                    limit: self.options.max_blob,
                    actual: size,
                });
            }
            hasher.update(&part);
            file.write_all(&part).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        Ok((BlobHash(hasher.finalize().into()), size))
    }

    pub(super) async fn on_get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        let changed = self.blobs_changed.clone();
        let refuse = move |error| {
            if matches!(error, StoreError::DamagedBlob(_)) {
                changed.notify_one();
            }
            refusal(error)
        };
        let bytes = self.store.get_blob(hash).await.map_err(&refuse)?;
        let bytes = bytes.ok_or(CallError::NoBlob(hash))?;
        Ok(bytes.map_err(refuse).boxed())
    }
}

fn cannot_write(path: &Path, error: Error) -> CallError {
    let text = format!("could not write {}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => CallError::Full(text),
        _ => CallError::Unavailable(text),
    }
}

/// A blob on its way in; removed unless the store has taken it away.
struct HalfWritten(PathBuf);

impl Drop for HalfWritten {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.0.display(), %error, "could not remove a half-written blob");
        }
    }
}
