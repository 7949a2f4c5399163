//! Puts a file's content where every executor finds it, unless it is there already.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::Client;
use model::BlobHash;
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

/// If the file changes while it is sent, its hash is no longer the one named and the server refuses it.
pub(super) async fn put_if_missing(path: &Path, client: &Client) -> Result<BlobHash> {
    let hash = hash_of(path).with_context(|| format!("could not read {}", path.display()))?;
    let began = Instant::now();
    while client.has_blob(hash).await?.is_none() {
        let file = tokio::fs::File::open(path)
            .await
            .with_context(|| format!("could not open {}", path.display()))?;
        match client
            .put_blob(hash, ReaderStream::with_capacity(file, PART))
            .await
        {
            Ok(()) => break,
            // It may have arrived all the same, so the loop asks first.
            Err(error) if client.is_worth_repeating(&error, began) => tokio::time::sleep(PAUSE).await,
            Err(error) => {
                return Err(error).with_context(|| format!("could not send {}", path.display()));
            }
        }
    }
    Ok(hash)
}

const PAUSE: Duration = Duration::from_millis(500);
const PART: usize = 256 << 10;

fn hash_of(path: &Path) -> io::Result<BlobHash> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut part = vec![0; PART];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(BlobHash(digest.finalize().into())),
            length => digest.update(&part[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "abc").unwrap();
        assert_eq!(
            hash_of(file.path()).unwrap().to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
