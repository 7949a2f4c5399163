//! Uploads the content of a file as a blob, unless the server has it already.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::HttpClient;
use model::BlobHash;
use tokio_util::io::ReaderStream;

/// Uploads the file and returns its hash. If the file changes during the upload, the server refuses it because the hash differs.
pub(super) async fn upload_if_missing(path: &Path, client: &HttpClient) -> Result<BlobHash> {
    let hash = hash_file(path).with_context(|| format!("could not read {}", path.display()))?;
    let began = Instant::now();
    while client.has_blob(hash).await?.is_none() {
        let file = tokio::fs::File::open(path)
            .await
            .with_context(|| format!("could not open {}", path.display()))?;
        match client
            .put_blob(hash, ReaderStream::with_capacity(file, UPLOAD_CHUNK_BYTES))
            .await
        {
            Ok(()) => break,
            // The upload may have succeeded before the connection failed, so the loop asks for the blob first.
            Err(error) if client.should_retry(&error, began) => tokio::time::sleep(RETRY_DELAY).await,
            Err(error) => {
                return Err(error).with_context(|| format!("could not upload {}", path.display()));
            }
        }
    }
    Ok(hash)
}

const RETRY_DELAY: Duration = Duration::from_millis(500);
const UPLOAD_CHUNK_BYTES: usize = 256 << 10;

fn hash_file(path: &Path) -> io::Result<BlobHash> {
    BlobHash::of_reader(fs::File::open(path)?, |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_by_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "abc").unwrap();
        assert_eq!(
            hash_file(file.path()).unwrap().to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
