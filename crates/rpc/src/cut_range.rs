//! Cuts a range from the bytes of a blob.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, stream};

use crate::{ByteStream, CallError};

/// Cuts the bytes of a blob in this range from a stream that begins at `position` in the blob. The result fails if the blob is
/// shorter.
pub fn cut_range(bytes: ByteStream, position: u64, range: Range<u64>) -> ByteStream {
    let Range { start, end } = range;
    if range.is_empty() {
        return stream::empty().boxed();
    }
    stream::try_unfold((bytes, position), move |(mut bytes, mut position)| async move {
        while position < end {
            let Some(mut chunk) = bytes.next().await.transpose()? else {
                return Err(CallError::Internal(format!(
                    "a blob has {position} bytes, but at least {end} were expected"
                )));
            };
            let chunk_start = position;
            position += chunk.len() as u64;
            if position > start.max(chunk_start) {
                chunk.truncate(index(end - chunk_start));
                let chunk: Bytes = chunk.split_off(index(start.saturating_sub(chunk_start)));
                return Ok(Some((chunk, (bytes, position))));
            }
        }
        Ok(None)
    })
    .boxed()
}

fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn a_range_is_cut_from_the_chunks() {
        for position in 0..3 {
            for start in position..6 {
                for end in start..=6 {
                    let chunks = ["ab", "", "cd", "ef"].concat().split_off(index(position));
                    let (first, rest) = chunks.split_at(2);
                    let chunks = [first, "", rest].map(|chunk| Ok(Bytes::copy_from_slice(chunk.as_bytes())));
                    let part = cut_range(stream::iter(chunks).boxed(), position, start..end);
                    let part: Vec<Bytes> = part.try_collect().await.unwrap();
                    let expected = &b"abcdef"[index(start)..index(end)];
                    assert_eq!(part.concat(), expected, "{position} {start}..{end}");
                    assert!(part.iter().all(|chunk| !chunk.is_empty()));
                }
            }
        }
    }

    #[tokio::test]
    async fn a_short_blob_is_an_error() {
        let chunks = [Ok(Bytes::from_static(b"abc"))];
        let mut part = cut_range(stream::iter(chunks).boxed(), 0, 1..4);
        assert_eq!(part.next().await.unwrap().unwrap(), "bc");
        assert!(part.next().await.unwrap().is_err());
    }
}
