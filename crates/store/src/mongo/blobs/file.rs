//! Files in GridFS, in the layout that other tools know too.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, DateTime, Document, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use crate::mongo::attempts::{COMMAND, Patience};
use crate::mongo::base::{Base, CHUNKS, FILES, UPLOADS};
use crate::mongo::failure::Failure;
use crate::mongo::field::{binary, unreadable};
use crate::{BlobBytes, StoreError};

/// GridFS's own default.
pub(super) const CHUNK: usize = 255 << 10;
/// How many chunks are read or written in one go: about 4 MiB.
pub(super) const TOGETHER: usize = 16;

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
pub(in crate::mongo) fn stream(base: Arc<Base>, file: ObjectId, size: u64) -> BlobBytes {
    stream::try_unfold((0, 0), move |(n, read)| {
        let base = base.clone();
        async move {
            if read >= size {
                return Ok::<_, StoreError>(None);
            }
            let piece = Patience::with("read a blob")
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
        return Err(unreadable("blob", "a part of it is missing; it may have been retired just now"));
    }
    let pieces: Vec<_> = chunks.into_iter().map(|chunk| chunk.data.bytes).collect();
    Ok(Bytes::from(pieces.concat()))
}

/// Removes marked files, their marks last.
pub(in crate::mongo) async fn discard(base: &Base, files: &[ObjectId]) -> Result<(), Failure> {
    for file in files {
        base.collection::<Document>(CHUNKS)
            .delete_many(doc! { "files_id": file })
            .await?;
        base.collection::<Document>(FILES)
            .delete_one(doc! { "_id": file })
            .await?;
        base.collection::<Document>(UPLOADS)
            .delete_one(doc! { "_id": file })
            .await?;
    }
    Ok(())
}
