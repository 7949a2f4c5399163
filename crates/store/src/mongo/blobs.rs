//! Blobs: their bytes in GridFS, and a document for each that names its file.
//!
//! A blob is there when its document is. The file behind it has a name of its own, so that two who put the same
//! blob do not write into each other's; one of them becomes the blob's.

mod upload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::TryStreamExt;
use model::{BlobHash, Moment};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Document, doc};
use mongodb::options::{Hint, ReadConcern};
use serde::{Deserialize, Serialize};

pub(super) use self::upload::put;
use super::attempts::COMMAND;
use super::base::{BLOBS, Base, UPLOADS, now};
use super::failure::Failure;
use super::field::{Field, blob_hash, large};
use super::files;
use super::schema::IDLE;
use super::transaction::Transaction;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BlobRow {
    #[serde(rename = "_id")]
    hash: Binary,
    pub(super) file: ObjectId,
    size: i64,
    /// When it was last put or asked for.
    used: i64,
    /// The number of tasks that use it.
    refs: i64,
}

/// How many are retired in one transaction.
const TOGETHER: usize = 50;

pub(super) async fn find(base: &Base, hashes: &[BlobHash]) -> Result<HashMap<BlobHash, BlobRow>, Failure> {
    let ids: Vec<_> = hashes.iter().map(Field::field).collect();
    let rows: Vec<BlobRow> = base
        .collection::<BlobRow>(BLOBS)
        .find(doc! { "_id": { "$in": ids } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    rows.into_iter()
        .map(|row| Ok((blob_hash(&row.hash)?, row)))
        .collect()
}

/// The file and its size, if the blob is there for good.
pub(super) async fn file_of(base: Arc<Base>, hash: BlobHash) -> Result<Option<(ObjectId, u64)>, Failure> {
    let found = base
        .collection::<BlobRow>(BLOBS)
        .find_one(doc! { "_id": hash.field() })
        .max_time(COMMAND)
        .await?;
    found
        .map(|row| Ok((row.file, large("blob's size", row.size)?)))
        .transpose()
}

/// The sizes of those that exist, and a note that they were asked for.
pub(super) async fn has(base: Arc<Base>, hashes: Arc<Vec<BlobHash>>) -> Result<Vec<Option<u64>>, Failure> {
    let found = find(&base, &hashes).await?;
    if !found.is_empty() {
        let ids: Vec<_> = found.keys().map(Field::field).collect();
        let touched = base
            .collection::<BlobRow>(BLOBS)
            .update_many(
                doc! { "_id": { "$in": ids } },
                doc! { "$set": { "used": now().field() } },
            )
            .await?;
        if touched.matched_count != found.len() as u64 {
            // One was retired just now.
            return Err(Failure::Overtaken);
        }
    }
    let size = |hash| {
        found
            .get(hash)
            .map(|row| large("blob's size", row.size))
            .transpose()
    };
    hashes.iter().map(size).collect()
}

/// For as many tasks more (or fewer) that use each of these.
pub(super) fn counted<'h>(hashes: impl Iterator<Item = &'h BlobHash>, by: i64) -> Vec<Document> {
    let mut counts: BTreeMap<BlobHash, i64> = BTreeMap::new();
    for hash in hashes {
        *counts.entry(*hash).or_default() += by;
    }
    counts
        .into_iter()
        .map(|(hash, by)| doc! { "q": { "_id": hash.field() }, "u": { "$inc": { "refs": by } } })
        .collect()
}

/// Removes blobs that no task uses and nobody has asked for since.
pub(super) async fn retire(base: Arc<Base>, unused_since: Moment, limit: usize) -> Result<usize, Failure> {
    let limit = limit.min(TOGETHER);
    let idle: Vec<BlobRow> = base
        .collection::<BlobRow>(BLOBS)
        .find(doc! { "refs": 0_i64, "used": { "$lt": unused_since.field() } })
        .sort(doc! { "used": 1 })
        .hint(Hint::Name(IDLE.into()))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    if idle.is_empty() {
        return Ok(0);
    }
    let mut transaction = Transaction::default();
    let unused = |row: &BlobRow| doc! { "_id": row.hash.clone(), "refs": 0_i64, "used": row.used };
    transaction.delete_each(BLOBS, idle.iter().map(unused))?;
    transaction.update(UPLOADS, idle.iter().map(|row| files::doom(row.file)))?;
    transaction.commit(&base).await?;
    Ok(idle.len())
}
