//! Checks the bytes of a blob against its hash while they are read.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use model::{BlobHash, BlobHasher};

use crate::{BlobStream, StoreError};

/// The callback of a blob read that marks a damaged blob in its store and returns the error for the reader.
pub(crate) type DamageHandler = Box<dyn FnOnce() -> BoxFuture<'static, StoreError> + Send>;

/// Passes the bytes through, but holds the last chunk back until the hash of all bytes is known to match. So the reader
/// of a damaged blob gets an error before the end of the stream, and for a blob of one chunk gets no bytes at all.
/// The source itself may end with [`StoreError::DamagedBlob`] where bytes are missing.
pub(crate) async fn verify_blob(
    hash: BlobHash,
    bytes: BlobStream,
    on_damage: DamageHandler,
) -> Result<BlobStream, StoreError> {
    let mut verifier = BlobVerifier {
        hash,
        bytes,
        hasher: Some(BlobHasher::default()),
        held_back: None,
        on_damage: Some(on_damage),
    };
    let first = verifier.next().await?;
    let rest = stream::try_unfold(verifier, async |mut verifier| {
        Ok(verifier.next().await?.map(|chunk| (chunk, verifier)))
    });
    Ok(stream::iter(first.map(Ok)).chain(rest).into_stream().boxed())
}

/// A wrapper around a [`BlobStream`] that checks the bytes against the blob's hash while they are read.
struct BlobVerifier {
    hash: BlobHash,
    bytes: BlobStream,
    /// `None` after the end of the stream.
    hasher: Option<BlobHasher>,
    held_back: Option<Bytes>,
    on_damage: Option<DamageHandler>,
}

impl BlobVerifier {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while let Some(hasher) = &mut self.hasher {
            match self.bytes.next().await {
                Some(Ok(chunk)) => {
                    hasher.update(&chunk);
                    if let Some(earlier) = self.held_back.replace(chunk) {
                        return Ok(Some(earlier));
                    }
                }
                Some(Err(StoreError::DamagedBlob(_))) => return Err(self.damaged().await),
                Some(Err(error)) => return Err(error),
                None => {
                    let actual = self.hasher.take().map(BlobHasher::finish);
                    if actual != Some(self.hash) {
                        return Err(self.damaged().await);
                    }
                }
            }
        }
        Ok(self.held_back.take())
    }

    async fn damaged(&mut self) -> StoreError {
        match self.on_damage.take() {
            Some(mark) => mark().await,
            None => StoreError::DamagedBlob(self.hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Reads these chunks as a blob of this content. Returns the bytes that passed, whether the stream ended without an
    /// error, and how often the blob was marked as damaged.
    async fn read(chunks: &[&'static str], content: &str) -> (String, bool, usize) {
        let hash = BlobHash::of(content);
        let bytes: Vec<_> = chunks
            .iter()
            .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))
            .collect();
        let marked = Arc::new(AtomicUsize::new(0));
        let marks = marked.clone();
        let on_damage: DamageHandler = Box::new(move || {
            marks.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { StoreError::DamagedBlob(hash) })
        });
        let mut passed = String::new();
        let mut ended_well = false;
        if let Ok(mut stream) = verify_blob(hash, stream::iter(bytes).boxed(), on_damage).await {
            ended_well = loop {
                match stream.next().await {
                    Some(Ok(chunk)) => passed.push_str(std::str::from_utf8(&chunk).unwrap()),
                    Some(Err(_)) => break false,
                    None => break true,
                }
            };
        }
        (passed, ended_well, marked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn the_last_chunk_passes_only_if_the_hash_matches() {
        let intact = |text: &str| (text.to_string(), true, 0);
        let damaged = |text: &str| (text.to_string(), false, 1);
        assert_eq!(read(&[], "").await, intact(""));
        assert_eq!(read(&["abc"], "abc").await, intact("abc"));
        assert_eq!(read(&["ab", "c", "def"], "abcdef").await, intact("abcdef"));
        assert_eq!(read(&["abX"], "abc").await, damaged(""));
        assert_eq!(read(&[], "abc").await, damaged(""));
        assert_eq!(read(&["aX", "c", "def"], "abcdef").await, damaged("aXc"));
        assert_eq!(read(&["ab", "c"], "abcdef").await, damaged("ab"));
        assert_eq!(read(&["abc", "def"], "abc").await, damaged("abc"));
    }
}
