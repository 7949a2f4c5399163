//! Reads what a result keeps: output streams and files, which are blobs unless they are small.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use model::{BlobHash, CapturedOutput};
use rpc::{ByteStream, CallError, Calls};

/// The bytes of an output stream that is kept, in this range. Small output is copied, because it may be a slice of an RPC
/// message with a whole task, which is not charged.
pub(super) async fn output_bytes(
    calls: &Arc<dyn Calls>,
    output: &CapturedOutput,
    range: Range<u64>,
) -> Result<ByteStream, CallError> {
    let (start, end) = (index(range.start), index(range.end));
    match (output.head.get(start..end), output.blob) {
        (Some([]), _) => Ok(stream::empty().boxed()),
        (Some(bytes), _) => Ok(stream::iter([Ok(Bytes::copy_from_slice(bytes))]).boxed()),
        (None, Some(blob)) => blob_bytes(calls, blob, range).await,
        (None, None) => Err(CallError::Internal(
            "a result has less output than it says".into(),
        )),
    }
}

/// The bytes of a blob in this range. The stream fails if the blob is shorter.
pub(super) async fn blob_bytes(
    calls: &Arc<dyn Calls>,
    blob: BlobHash,
    range: Range<u64>,
) -> Result<ByteStream, CallError> {
    if range.is_empty() {
        return Ok(stream::empty().boxed());
    }
    Ok(cut(calls.get_blob(blob).await?, range))
}

/// The part of a stream in this range.
fn cut(bytes: ByteStream, range: Range<u64>) -> ByteStream {
    let Range { start, end } = range;
    stream::try_unfold((bytes, 0), move |(mut bytes, mut position)| async move {
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
                let chunk = chunk.split_off(index(start.saturating_sub(chunk_start)));
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
        for start in 0..6 {
            for end in start + 1..=6 {
                let chunks = ["ab", "", "cd", "ef"].map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())));
                let part = cut(stream::iter(chunks).boxed(), start..end);
                let part: Vec<Bytes> = part.try_collect().await.unwrap();
                assert_eq!(
                    part.concat(),
                    b"abcdef"[index(start)..index(end)],
                    "{start}..{end}"
                );
                assert!(part.iter().all(|chunk| !chunk.is_empty()));
            }
        }
    }

    #[tokio::test]
    async fn a_short_blob_is_an_error() {
        let chunks = [Ok(Bytes::from_static(b"abc"))];
        let mut part = cut(stream::iter(chunks).boxed(), 1..4);
        assert_eq!(part.next().await.unwrap().unwrap(), "bc");
        assert!(part.next().await.unwrap().is_err());
    }
}
