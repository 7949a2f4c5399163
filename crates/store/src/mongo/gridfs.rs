//! Files in the standard layout of GridFS.
//!
//! Writing a file takes several commands. So an upload begins with a mark in the collection `uploads`, and the
//! transaction that refers to the file removes the mark: it claims the file. A file whose mark remains, because its
//! writer failed or its content was not needed, is deleted later.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, DateTime, Document, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::bson_values::{ToBson, binary, unreadable};
use super::context::{CHUNKS, FILES, StoreContext, UPLOADS, now};
use super::failure::{DUPLICATE_KEY, MongoFailure};
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use crate::{BlobStream, StoreError};

/// The default of GridFS.
pub(super) const CHUNK_BYTES: usize = 255 << 10;
/// How many chunks one command reads or writes: about 4 MiB.
pub(super) const CHUNKS_PER_COMMAND: usize = 16;

/// How many files one cleanup deletes.
const FILES_PER_CLEANUP: usize = 20;

/// A document of the MongoDB collection `fs.chunks`: one section of a GridFS file's bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GridFsChunk {
    #[serde(rename = "_id")]
    id: ObjectId,
    files_id: ObjectId,
    n: i32,
    data: Binary,
}

/// Splits bytes into chunks, numbered from `first`.
pub(super) fn chunks(file: ObjectId, first: i32, bytes: &[u8]) -> Vec<GridFsChunk> {
    (first..)
        .zip(bytes.chunks(CHUNK_BYTES))
        .map(|(n, bytes)| GridFsChunk {
            id: ObjectId::new(),
            files_id: file,
            n,
            data: binary(bytes.to_vec()),
        })
        .collect()
}

/// A document of the collection `fs.files`, which describes a file.
pub(super) fn file_document(file: ObjectId, name: &str, size: u64) -> Document {
    doc! {
        "_id": file,
        "length": i64::try_from(size).unwrap_or(i64::MAX),
        "chunkSize": CHUNK_BYTES as i32,
        "uploadDate": DateTime::now(),
        "filename": name,
    }
}

/// The bytes of a file in this range, which ends with the file. Each read is retried on its own, so that a stream survives a
/// failover.
pub(super) fn stream(context: Arc<StoreContext>, file: ObjectId, range: Range<u64>) -> BlobStream {
    let Range { start, end } = range;
    let first = start / CHUNK_BYTES as u64;
    let begin = (
        i32::try_from(first).unwrap_or(i32::MAX),
        first * CHUNK_BYTES as u64,
    );
    stream::try_unfold(begin, move |(n, read)| {
        let context = context.clone();
        async move {
            if read >= end || start >= end {
                return Ok::<_, StoreError>(None);
            }
            let bytes = RetryPolicy::new("read a file")
                .run(|_| read_from(context.clone(), file, n))
                .await?;
            let next = (
                n + bytes.len().div_ceil(CHUNK_BYTES) as i32,
                read + bytes.len() as u64,
            );
            // The range begins within the first chunk.
            let skipped = usize::try_from(start.saturating_sub(read)).unwrap_or(usize::MAX);
            Ok(Some((bytes.slice(skipped.min(bytes.len())..), next)))
        }
    })
    .boxed()
}

async fn read_from(context: Arc<StoreContext>, file: ObjectId, first: i32) -> Result<Bytes, MongoFailure> {
    let chunks: Vec<GridFsChunk> = context
        .collection::<GridFsChunk>(CHUNKS)
        .find(doc! { "files_id": file, "n": { "$gte": first } })
        .sort(doc! { "n": 1 })
        .limit(CHUNKS_PER_COMMAND as i64)
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let in_order = (first..).zip(&chunks).all(|(n, chunk)| chunk.n == n);
    if chunks.is_empty() || !in_order {
        return Err(unreadable(
            "file",
            "a chunk is missing; retention may have removed the file",
        ));
    }
    let data: Vec<_> = chunks.into_iter().map(|chunk| chunk.data.bytes).collect();
    Ok(Bytes::from(data.concat()))
}

/// Uploads bytes as a new, unclaimed file.
pub(super) async fn write(context: &Arc<StoreContext>, bytes: &[u8]) -> Result<ObjectId, StoreError> {
    const STEP: &str = "write content";
    let file = RetryPolicy::new(STEP)
        .run(|_| begin_upload(context.clone()))
        .await?;
    for (index, bytes) in (0..).zip(bytes.chunks(CHUNK_BYTES * CHUNKS_PER_COMMAND)) {
        let bytes = Arc::new(bytes.to_vec());
        let first = index * CHUNKS_PER_COMMAND as i32;
        RetryPolicy::new(STEP)
            .with_payload(bytes.len())
            .run(|_| write_chunks(context.clone(), file, first, bytes.clone()))
            .await?;
    }
    Ok(file)
}

/// Marks a new file as unclaimed, before its first chunk is written. Each try uses a new id, so that a try that takes
/// effect late cannot mark a file that has been claimed meanwhile.
pub(super) async fn begin_upload(context: Arc<StoreContext>) -> Result<ObjectId, MongoFailure> {
    let file = ObjectId::new();
    context
        .collection::<Document>(UPLOADS)
        .insert_one(doc! { "_id": file, "since": now().to_bson() })
        .await?;
    Ok(file)
}

/// The condition that finds the mark of a file that may still be claimed. A transaction claims the file by deleting the
/// mark.
pub(super) fn claimable_upload(file: ObjectId) -> Document {
    doc! { "_id": file, "doomed": { "$ne": true } }
}

/// The update that schedules a file for deletion. From then on it cannot be claimed.
pub(super) fn schedule_deletion(file: ObjectId) -> Document {
    doc! {
        "q": { "_id": file },
        "u": { "$set": { "doomed": true }, "$setOnInsert": { "since": now().to_bson() } },
        "upsert": true,
    }
}

/// Writes consecutive chunks. Chunks that an earlier try has written stay as they are.
pub(super) async fn write_chunks(
    context: Arc<StoreContext>,
    file: ObjectId,
    first: i32,
    bytes: Arc<Vec<u8>>,
) -> Result<(), MongoFailure> {
    let written = context
        .collection(CHUNKS)
        .insert_many(chunks(file, first, &bytes))
        .ordered(false)
        .await;
    match written {
        Err(error) if !is_only_duplicate_keys(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Deletes files that were uploaded for a transaction, except those that it claimed. If this fails, retention deletes
/// them later.
pub(super) async fn discard(context: &Arc<StoreContext>, files: &[ObjectId]) {
    for files in files.chunks(FILES_PER_CLEANUP) {
        let these = doc! { "_id": { "$in": files } };
        let discarded = RetryPolicy::new("discard a file")
            .run(|_| delete_discarded(context.clone(), these.clone(), these.clone()))
            .await;
        if let Err(error) = discarded {
            tracing::debug!(%error, "could not delete unclaimed files; retention retries");
        }
    }
}

/// Schedules the unclaimed files that match `discard` for deletion, then deletes files that match `delete` and are
/// scheduled. Deletes a limited number of files and returns how many.
pub(super) async fn delete_discarded(
    context: Arc<StoreContext>,
    discard: Document,
    mut delete: Document,
) -> Result<usize, MongoFailure> {
    let uploads = context.collection::<Document>(UPLOADS);
    // From here on no transaction can claim these files, even if an upload is still in progress.
    uploads
        .update_many(discard, doc! { "$set": { "doomed": true } })
        .await?;
    delete.insert("doomed", true);
    // Majority read concern: if the write that scheduled a deletion were rolled back, the file would still be in use.
    let marks: Vec<Document> = uploads
        .find(delete)
        .limit(FILES_PER_CLEANUP as i64)
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let files: Vec<_> = marks
        .iter()
        .filter_map(|mark| mark.get_object_id("_id").ok())
        .collect();
    if files.is_empty() {
        return Ok(0);
    }
    // The marks are deleted last, so that an interrupted cleanup continues later.
    for (collection, key) in [(CHUNKS, "files_id"), (FILES, "_id"), (UPLOADS, "_id")] {
        context
            .collection::<Document>(collection)
            .delete_many(doc! { key: { "$in": &files } })
            .await?;
    }
    Ok(files.len())
}

/// Whether the only errors are documents that exist already.
fn is_only_duplicate_keys(error: &mongodb::error::Error) -> bool {
    let mongodb::error::ErrorKind::InsertMany(error) = &*error.kind else {
        return false;
    };
    error.write_concern_error.is_none()
        && error
            .write_errors
            .iter()
            .flatten()
            .all(|error| error.code == DUPLICATE_KEY)
}
