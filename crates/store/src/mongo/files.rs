//! Files in GridFS, in the layout that other tools know too.
//!
//! A file takes several writes, so until a transaction takes it over it has a mark in `uploads`. What is marked is
//! nobody's: if nobody comes for it, because he died or thought better of it, it is cleared away.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, DateTime, Document, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::attempts::{COMMAND, Patience};
use super::base::{Base, CHUNKS, FILES, UPLOADS, now};
use super::failure::{DUPLICATE_KEY, Failure};
use super::field::{Field, binary, unreadable};
use crate::{BlobBytes, StoreError};

/// GridFS's own default.
pub(super) const CHUNK: usize = 255 << 10;
/// How many chunks are read or written in one go: about 4 MiB.
pub(super) const TOGETHER: usize = 16;

/// How many files are cleared away in one go.
const CLEARED: usize = 20;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Chunk {
    #[serde(rename = "_id")]
    id: ObjectId,
    files_id: ObjectId,
    n: i32,
    data: Binary,
}

/// The chunks of these bytes, of which the first is the file's n-th.
pub(super) fn chunks(file: ObjectId, first: i32, bytes: &[u8]) -> Vec<Chunk> {
    (first..)
        .zip(bytes.chunks(CHUNK))
        .map(|(n, piece)| Chunk {
            id: ObjectId::new(),
            files_id: file,
            n,
            data: binary(piece.to_vec()),
        })
        .collect()
}

pub(super) fn description(file: ObjectId, name: &str, size: u64) -> Document {
    doc! {
        "_id": file,
        "length": i64::try_from(size).unwrap_or(i64::MAX),
        "chunkSize": CHUNK as i32,
        "uploadDate": DateTime::now(),
        "filename": name,
    }
}

/// Its bytes, piece by piece; each piece survives a change of the primary.
pub(super) fn stream(base: Arc<Base>, file: ObjectId, size: u64) -> BlobBytes {
    stream::try_unfold((0, 0), move |(n, read)| {
        let base = base.clone();
        async move {
            if read >= size {
                return Ok::<_, StoreError>(None);
            }
            let piece = Patience::with("read a file")
                .persist(|_| read_from(base.clone(), file, n))
                .await?;
            let (read, n) = (read + piece.len() as u64, n + piece.len().div_ceil(CHUNK) as i32);
            Ok(Some((piece, (n, read))))
        }
    })
    .boxed()
}

async fn read_from(base: Arc<Base>, file: ObjectId, first: i32) -> Result<Bytes, Failure> {
    let chunks: Vec<Chunk> = base
        .collection::<Chunk>(CHUNKS)
        .find(doc! { "files_id": file, "n": { "$gte": first } })
        .sort(doc! { "n": 1 })
        .limit(TOGETHER as i64)
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let in_order = (first..).zip(&chunks).all(|(n, chunk)| chunk.n == n);
    if chunks.is_empty() || !in_order {
        return Err(unreadable(
            "file",
            "a part of it is missing; it may have been retired just now",
        ));
    }
    let pieces: Vec<_> = chunks.into_iter().map(|chunk| chunk.data.bytes).collect();
    Ok(Bytes::from(pieces.concat()))
}

/// Keeps these bytes in a file that is nobody's yet.
pub(super) async fn write(base: &Arc<Base>, bytes: &[u8]) -> Result<ObjectId, StoreError> {
    const STEP: &str = "write content";
    let file = Patience::with(STEP).persist(|_| mark(base.clone())).await?;
    for (index, piece) in (0..).zip(bytes.chunks(CHUNK * TOGETHER)) {
        let piece = Arc::new(piece.to_vec());
        let first = index * TOGETHER as i32;
        Patience::with(STEP)
            .for_bytes(piece.len())
            .persist(|_| write_piece(base.clone(), file, first, piece.clone()))
            .await?;
    }
    Ok(file)
}

/// A new file, before anything of it is written. Each attempt makes one of its own: one that takes effect late marks
/// a file that never was, not one that has been taken meanwhile.
pub(super) async fn mark(base: Arc<Base>) -> Result<ObjectId, Failure> {
    let file = ObjectId::new();
    base.collection::<Document>(UPLOADS)
        .insert_one(doc! { "_id": file, "since": now().field() })
        .await?;
    Ok(file)
}

/// The mark, if the file may still be taken: what takes it removes this.
pub(super) fn marked(file: ObjectId) -> Document {
    doc! { "_id": file, "doomed": { "$ne": true } }
}

/// Marks a file that is to be cleared away.
pub(super) fn doom(file: ObjectId) -> Document {
    doc! {
        "q": { "_id": file },
        "u": { "$set": { "doomed": true }, "$setOnInsert": { "since": now().field() } },
        "upsert": true,
    }
}

/// Chunks that an earlier attempt wrote already are left as they are.
pub(super) async fn write_piece(
    base: Arc<Base>,
    file: ObjectId,
    first: i32,
    bytes: Arc<Vec<u8>>,
) -> Result<(), Failure> {
    let written = base
        .collection(CHUNKS)
        .insert_many(chunks(file, first, &bytes))
        .ordered(false)
        .await;
    match written {
        Err(error) if !is_only_repeated(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Gives up files that were written for a transaction, unless it has taken them. If that fails they are cleared
/// away later.
pub(super) async fn abandon(base: &Arc<Base>, files: &[ObjectId]) {
    for files in files.chunks(CLEARED) {
        let these = doc! { "_id": { "$in": files } };
        let abandoned = Patience::with("give up a file")
            .persist(|_| clear(base.clone(), these.clone(), these.clone()))
            .await;
        if let Err(error) = abandoned {
            tracing::debug!(%error, "files that nobody needs are left for later");
        }
    }
}

/// Gives up the marked files that one is true of, and clears away those that the other is true of, if they were
/// given up, now or before; a part of them at a time. Answers how many it were.
pub(super) async fn clear(
    base: Arc<Base>,
    unwanted: Document,
    mut among: Document,
) -> Result<usize, Failure> {
    let uploads = base.collection::<Document>(UPLOADS);
    // From now on nobody can take it any more, even if someone is still at it.
    uploads
        .update_many(unwanted, doc! { "$set": { "doomed": true } })
        .await?;
    among.insert("doomed", true);
    // As a majority has it: a retirement that is rolled back must not have cost a living file its bytes.
    let doomed: Vec<Document> = uploads
        .find(among)
        .limit(CLEARED as i64)
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let files: Vec<_> = doomed
        .iter()
        .filter_map(|mark| mark.get_object_id("_id").ok())
        .collect();
    if files.is_empty() {
        return Ok(0);
    }
    // The marks last, so that nothing is forgotten half-way.
    for (collection, key) in [(CHUNKS, "files_id"), (FILES, "_id"), (UPLOADS, "_id")] {
        base.collection::<Document>(collection)
            .delete_many(doc! { key: { "$in": &files } })
            .await?;
    }
    Ok(files.len())
}

/// Whether all that went wrong is that some of it was there already.
fn is_only_repeated(error: &mongodb::error::Error) -> bool {
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
