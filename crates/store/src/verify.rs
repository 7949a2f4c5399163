//! Checks the bytes of a blob against its hash while they are read.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use model::BlobHash;
use sha2::{Digest, Sha256};

use crate::{BlobBytes, StoreError};

/// Marks the blob as damaged in its store. Answers what the reader is told.
pub(crate) type OnDamage = Box<dyn FnOnce() -> BoxFuture<'static, StoreError> + Send>;

/// The same bytes, but the last piece is held back until all of them are known to be those of the hash. So a reader
/// of a damaged blob gets an error before it could take it for whole; one of a small blob gets no bytes at all.
/// The bytes themselves may end in [`StoreError::DamagedBlob`] where a part of them is missing.
pub(crate) async fn verified(
    hash: BlobHash,
    bytes: BlobBytes,
    on_damage: OnDamage,
) -> Result<BlobBytes, StoreError> {
    let mut check = Check {
        hash,
        bytes,
        hasher: Some(Sha256::new()),
        held: None,
        on_damage: Some(on_damage),
    };
    let first = check.next().await?;
    let rest = stream::try_unfold(check, async |mut check| {
        Ok(check.next().await?.map(|piece| (piece, check)))
    });
    Ok(stream::iter(first.map(Ok)).chain(rest).into_stream().boxed())
}

struct Check {
    hash: BlobHash,
    bytes: BlobBytes,
    /// `None` once the end was reached.
    hasher: Option<Sha256>,
    held: Option<Bytes>,
    on_damage: Option<OnDamage>,
}

impl Check {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while let Some(hasher) = &mut self.hasher {
            match self.bytes.next().await {
                Some(Ok(piece)) => {
                    hasher.update(&piece);
                    if let Some(earlier) = self.held.replace(piece) {
                        return Ok(Some(earlier));
                    }
                }
                Some(Err(StoreError::DamagedBlob(_))) => return Err(self.damaged().await),
                Some(Err(error)) => return Err(error),
                None => {
                    let actual = self.hasher.take().map(|hasher| hasher.finalize().into());
                    if actual != Some(self.hash.0) {
                        return Err(self.damaged().await);
                    }
                }
            }
        }
        Ok(self.held.take())
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

    /// Reads the pieces as a blob of this content. Answers what was passed on, whether it ended well, and how often
    /// the blob was marked.
    async fn read(pieces: &[&'static str], content: &str) -> (String, bool, usize) {
        let hash = BlobHash(Sha256::digest(content).into());
        let bytes: Vec<_> = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())))
            .collect();
        let marked = Arc::new(AtomicUsize::new(0));
        let marks = marked.clone();
        let on_damage: OnDamage = Box::new(move || {
            marks.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { StoreError::DamagedBlob(hash) })
        });
        let mut passed = String::new();
        let mut ended_well = false;
        if let Ok(mut stream) = verified(hash, stream::iter(bytes).boxed(), on_damage).await {
            ended_well = loop {
                match stream.next().await {
                    Some(Ok(piece)) => passed.push_str(std::str::from_utf8(&piece).unwrap()),
                    Some(Err(_)) => break false,
                    None => break true,
                }
            };
        }
        (passed, ended_well, marked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn the_last_piece_comes_only_if_all_are_right() {
        let whole = |text: &str| (text.to_string(), true, 0);
        let damaged = |text: &str| (text.to_string(), false, 1);
        assert_eq!(read(&[], "").await, whole(""));
        assert_eq!(read(&["abc"], "abc").await, whole("abc"));
        assert_eq!(read(&["ab", "c", "def"], "abcdef").await, whole("abcdef"));
        assert_eq!(read(&["abX"], "abc").await, damaged(""));
        assert_eq!(read(&[], "abc").await, damaged(""));
        assert_eq!(read(&["aX", "c", "def"], "abcdef").await, damaged("aXc"));
        assert_eq!(read(&["ab", "c"], "abcdef").await, damaged("ab"));
        assert_eq!(read(&["abc", "def"], "abc").await, damaged("abc"));
    }
}
