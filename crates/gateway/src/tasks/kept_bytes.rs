//! Reads what a result keeps: output streams and files, which are blobs unless they are small.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use model::{BlobHash, CapturedOutput};
use rpc::{ByteStream, CallError, Calls, cut_range};

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
pub(crate) async fn blob_bytes(
    calls: &Arc<dyn Calls>,
    blob: BlobHash,
    range: Range<u64>,
) -> Result<ByteStream, CallError> {
    match range.start {
        _ if range.is_empty() => Ok(stream::empty().boxed()),
        // Verified if it is the whole blob.
        0 => Ok(cut_range(calls.get_blob(blob).await?, 0, range)),
        _ => calls.get_blob_range(blob, range).await,
    }
}

fn index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
