//! Blobs on their way to and from a judicator, with limits on the time without progress only.

use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use model::BlobHash;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tonic::Status;

use super::channels::{AuthenticatedClient, JudicatorConnections};
use super::replay::ReplayableStream;
use super::{CALL_TIMEOUT, CallFailures, RpcClient};
use crate::stall_timeout::{STALL_TIMEOUT, fail_if_sender_stalls};
use crate::wire::{encode_hash, error_from_status, proto};
use crate::{BlobFileSource, ByteStream, CallError, cut_range};

/// The rate at which a judicator stores a blob, at least, in bytes per second.
const MIN_STORE_RATE: u64 = 1 << 20;
/// A caller may drop an upload at any time before this, and the judicator does not count as failed: a user disconnects, or
/// nobody wants the result of a task any more.
const MAX_UPLOAD_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// How much of a file is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Fails over to the next judicator as long as the sent bytes can be sent again.
pub(super) async fn put(
    client: &RpcClient,
    hash: BlobHash,
    offset: Option<u64>,
    bytes: ByteStream,
) -> Result<u64, CallError> {
    let bytes = ReplayableStream::new(bytes, client.replay_budget.clone());
    let mut failures = CallFailures::default();
    client.probe_if_due();
    for (address, connections) in client.channels.in_failover_order() {
        let pending = client.channels.begin_call(&address, MAX_UPLOAD_TIME);
        match send(connections.blobs, hash, offset, bytes.replay()).await {
            Ok(size) => {
                pending.on_answered();
                return Ok(size);
            }
            Err(status) => failures.add(pending, &address, status)?,
        }
        if !bytes.can_replay().await {
            break;
        }
    }
    Err(failures.into_error())
}

/// Continues at each judicator where an interrupted call has ended there.
pub(super) async fn put_file(client: &RpcClient, file: BlobFileSource) -> Result<(), CallError> {
    let mut failures = CallFailures::default();
    client.probe_if_due();
    for (address, connections) in client.channels.in_failover_order() {
        let pending = client.channels.begin_call(&address, MAX_UPLOAD_TIME);
        match send_file(connections, &file).await? {
            Ok(_) => {
                pending.on_answered();
                return Ok(());
            }
            Err(status) => failures.add(pending, &address, status)?,
        }
    }
    Err(failures.into_error())
}

/// Without a range, the whole blob.
pub(super) async fn get(
    client: &RpcClient,
    hash: BlobHash,
    range: Option<Range<u64>>,
) -> Result<ByteStream, CallError> {
    let request = proto::GetBlobRequest {
        hashes: vec![encode_hash(hash)],
        offset: range.as_ref().map_or(0, |range| range.start),
        length: range.as_ref().map(|range| range.end.saturating_sub(range.start)),
    };
    let (address, parts) = client
        .call_with_address(CALL_TIMEOUT, request, |mut connections, request| async move {
            connections.blobs.get_blob(request).await
        })
        .await?;
    let channels = client.channels.clone();
    let bytes = match range {
        None => message_bytes(parts),
        Some(range) => ranged_bytes(parts, range).await?,
    };
    Ok(bytes
        .inspect_err(move |error| channels.on_stream_failed(&address, error))
        .boxed())
}

fn message_bytes(parts: impl Stream<Item = Result<proto::BlobPart, Status>> + Send + 'static) -> ByteStream {
    let bytes = parts.map_ok(|part| part.bytes).map_err(error_from_status);
    fail_if_sender_stalls(bytes, STALL_TIMEOUT)
}

/// The bytes of the range. A judicator that does not know ranges sends the whole blob, and its first message has no offset.
async fn ranged_bytes(
    parts: impl Stream<Item = Result<proto::BlobPart, Status>> + Send + Unpin + 'static,
    range: Range<u64>,
) -> Result<ByteStream, CallError> {
    let mut parts = parts.peekable();
    let first = tokio::time::timeout(STALL_TIMEOUT, Pin::new(&mut parts).peek()).await;
    let first = first.map_err(|_| CallError::Unavailable("received no bytes for too long".into()))?;
    // A failure is left in the stream.
    let first = first.and_then(|first| first.as_ref().ok());
    let position = first.and_then(|first| first.offset).unwrap_or(0);
    Ok(cut_range(message_bytes(parts), position, range))
}

/// The outer error is about the file, the inner one about the judicator.
async fn send_file(
    mut connections: JudicatorConnections,
    file: &BlobFileSource,
) -> Result<Result<u64, Status>, CallError> {
    let request = proto::BlobHashes {
        hashes: vec![encode_hash(file.hash)],
    };
    let partial = tokio::time::timeout(CALL_TIMEOUT, connections.calls.partial_blob(request)).await;
    let offset = match partial {
        Ok(Ok(partial)) => partial.into_inner().size,
        Ok(Err(status)) => return Ok(Err(status)),
        Err(_) => return Ok(Err(Status::deadline_exceeded("no answer in time"))),
    };
    // More bytes than the file has cannot be a part of it.
    let offset = if offset > file.size { 0 } else { offset };
    let bytes = read_from(&file.path, offset)
        .await
        .map_err(|error| CallError::Internal(format!("could not read {}: {error}", file.path.display())))?;
    Ok(send(connections.files, file.hash, Some(offset), bytes).await)
}

/// Streams a file from an offset on. If reading fails, the stream ends early; the judicator then computes another hash
/// than the named one, and stores nothing.
async fn read_from(path: &Path, offset: u64) -> std::io::Result<impl Stream<Item = Bytes> + Send + 'static> {
    let mut file = File::open(path).await?;
    file.seek(SeekFrom::Start(offset)).await?;
    Ok(stream::unfold(file, |mut file| async move {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        match file.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some((chunk.freeze(), file)),
        }
    }))
}

async fn send(
    mut connection: AuthenticatedClient,
    hash: BlobHash,
    offset: Option<u64>,
    bytes: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<u64, Status> {
    // The judicator has to store what it kept, too.
    let sent = Arc::new(AtomicU64::new(offset.unwrap_or(0)));
    let counted = sent.clone();
    let parts = blob_messages(hash, offset, bytes).inspect(move |part| {
        counted.fetch_add(part.bytes.len() as u64, Ordering::Relaxed);
    });
    let answer = await_with_progress(&sent, connection.put_blob(parts)).await?;
    Ok(answer.into_inner().size)
}

/// The hash first, then the bytes. If the source fails, the stream ends early; the judicator then computes another hash
/// than the named one, and stores nothing.
fn blob_messages(
    hash: BlobHash,
    offset: Option<u64>,
    bytes: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = proto::BlobPart> + Send + 'static {
    let first = proto::BlobPart {
        hash: encode_hash(hash),
        bytes: Bytes::new(),
        offset,
    };
    let rest = bytes.map(|bytes| proto::BlobPart {
        hash: Bytes::new(),
        bytes,
        offset: None,
    });
    stream::once(async { first }).chain(rest)
}

/// Waits as long as the judicator accepts bytes. Before the first byte it reads what it kept of an interrupted upload, and
/// after the last byte it has to store the blob, so the time limit grows with these bytes.
async fn await_with_progress<T>(
    bytes: &AtomicU64,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let mut call = std::pin::pin!(call);
    let mut seen = bytes.load(Ordering::Relaxed);
    loop {
        let timeout = STALL_TIMEOUT + Duration::from_secs(seen / MIN_STORE_RATE);
        if let Ok(answer) = tokio::time::timeout(timeout, &mut call).await {
            return answer;
        }
        let now = bytes.load(Ordering::Relaxed);
        if now == seen {
            return Err(Status::unavailable(
                "the judicator accepted no bytes of the blob for too long",
            ));
        }
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// In the middle of an upgrade a judicator may not know ranges.
    #[tokio::test]
    async fn a_range_has_the_same_bytes_from_an_older_judicator() {
        let check = async |offset: Option<u64>, sent: &'static str| {
            let parts: Vec<_> = sent
                .as_bytes()
                .chunks(3)
                .map(|bytes| {
                    Ok(proto::BlobPart {
                        hash: Bytes::new(),
                        bytes: Bytes::from_static(bytes),
                        offset,
                    })
                })
                .collect();
            let bytes = ranged_bytes(stream::iter(parts), 4..6).await.unwrap();
            let bytes: Vec<Bytes> = bytes.try_collect().await.unwrap();
            assert_eq!(bytes.concat(), b"ef", "{offset:?}");
        };
        check(None, "abcdefgh").await;
        check(Some(4), "ef").await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_of_a_continued_upload_counts_the_kept_bytes() {
        let check = async |kept: u64, expected: Duration| {
            let begun = Instant::now();
            let never = std::future::pending::<Result<(), Status>>();
            assert!(await_with_progress(&AtomicU64::new(kept), never).await.is_err());
            assert_eq!(begun.elapsed(), expected, "{kept}");
        };
        check(0, STALL_TIMEOUT).await;
        check(600 << 20, STALL_TIMEOUT + Duration::from_secs(600)).await;
    }
}
