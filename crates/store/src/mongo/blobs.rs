//! Blobs: their bytes in GridFS, and a document for each that names its file.
//!
//! A blob is there when its document is. The file behind it has a name of its own, so that two who put the same
//! blob do not write into each other's; one of them becomes the blob's.

mod scan;
mod upload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use model::{Age, BlobHash};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Document, RawDocument, RawDocumentBuf, deserialize_from_slice, doc};
use mongodb::options::{Hint, ReadConcern};
use serde::{Deserialize, Serialize};

pub(super) use self::scan::{damaged, scan};
pub(super) use self::upload::put;
use super::age;
use super::attempts::{COMMAND, Patience};
use super::base::{BLOBS, Base, UPLOADS, now};
use super::failure::Failure;
use super::field::{Field, large, unreadable};
use super::files;
use super::schema::IDLE;
use super::transaction::Transaction;
use crate::{BlobBytes, StoreError, verify};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BlobRow {
    #[serde(rename = "_id")]
    hash: Binary,
    pub(super) file: ObjectId,
    size: i64,
    /// When it was last put or asked for, for people.
    used: i64,
    /// The store's age then.
    used_age: Option<i64>,
    /// There when its bytes are known not to be those of its hash.
    #[serde(default, skip_serializing_if = "is_whole")]
    damaged: bool,
    /// The number of tasks that use it.
    refs: i64,
}

fn is_whole(damaged: &bool) -> bool {
    !damaged
}

/// How many are retired in one transaction.
const TOGETHER: usize = 50;

/// Of the blobs that were looked for, those that are there.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Not known to be damaged.
    pub(super) whole: HashMap<BlobHash, BlobRow>,
    /// With what is wrong.
    pub(super) unreadable: HashMap<BlobHash, String>,
}

pub(super) async fn find(base: &Base, hashes: &[BlobHash]) -> Result<Found, Failure> {
    let ids: Vec<_> = hashes.iter().map(Field::field).collect();
    let documents: Vec<RawDocumentBuf> = base
        .collection(BLOBS)
        .find(doc! { "_id": { "$in": ids }, "damaged": { "$ne": true } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let mut found = Found::default();
    for document in &documents {
        match (parse(base, document), hash_of(document)) {
            (Ok((hash, row)), _) => drop(found.whole.insert(hash, row)),
            (Err(problem), Some(hash)) => drop(found.unreadable.insert(hash, problem)),
            (Err(_), None) => {}
        }
    }
    Ok(found)
}

/// What cannot be read is noted.
fn parse(base: &Base, document: &RawDocument) -> Result<(BlobHash, BlobRow), String> {
    let row: Result<BlobRow, _> = deserialize_from_slice(document.as_bytes());
    let problem = match (row, hash_of(document)) {
        (Ok(row), Some(hash)) if row.size >= 0 => return Ok((hash, row)),
        (Err(error), _) => error.to_string(),
        (Ok(_), Some(_)) => "its size is negative".to_string(),
        (Ok(_), None) => "its hash has another length".to_string(),
    };
    let id = document.get("_id").ok().flatten();
    base.set_aside.note(format_args!("blob {id:?}"), &problem);
    Err(problem)
}

/// One that was asked for by its hash: it is read, or the caller is told why it cannot be.
fn required(base: &Base, hash: BlobHash, document: &RawDocument) -> Result<BlobRow, Failure> {
    match parse(base, document) {
        Ok((_, row)) => Ok(row),
        Err(problem) => Err(unreadable("blob", format!("{hash}: {problem}"))),
    }
}

fn hash_of(document: &RawDocument) -> Option<BlobHash> {
    let id = document.get("_id").ok().flatten()?;
    id.as_binary()?.bytes.try_into().ok().map(BlobHash)
}

/// Its bytes, if the blob is there for good; checked as they are read.
pub(super) async fn get(base: &Arc<Base>, hash: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
    let found = Patience::with("look for a blob")
        .persist(|_| row_of(base.clone(), hash))
        .await?;
    match found {
        None => Ok(None),
        Some(row) if row.damaged => Err(StoreError::DamagedBlob(hash)),
        Some(row) => read(base, hash, row.file, row.size).await.map(Some),
    }
}

async fn row_of(base: Arc<Base>, hash: BlobHash) -> Result<Option<BlobRow>, Failure> {
    let found: Option<RawDocumentBuf> = base
        .collection(BLOBS)
        .find_one(doc! { "_id": hash.field() })
        .max_time(COMMAND)
        .await?;
    found.map(|document| required(&base, hash, &document)).transpose()
}

async fn read(base: &Arc<Base>, hash: BlobHash, file: ObjectId, size: i64) -> Result<BlobBytes, StoreError> {
    let size = large("blob's size", size).map_err(|failure| failure.into_error("read a blob"))?;
    let bytes = files::stream(base.clone(), file, size).map_err(move |error| match error {
        // A part of it is missing, or a part of another size is in its place.
        StoreError::Unreadable { .. } => StoreError::DamagedBlob(hash),
        error => error,
    });
    let base = base.clone();
    let on_damage = move || -> BoxFuture<'static, StoreError> { Box::pin(mark(base, hash, file)) };
    verify::verified(hash, bytes.boxed(), Box::new(on_damage)).await
}

/// Answers what the reader is told.
async fn mark(base: Arc<Base>, hash: BlobHash, file: ObjectId) -> StoreError {
    let marked = Patience::with("mark a damaged blob")
        .persist(|_| mark_damaged(base.clone(), hash, file))
        .await;
    match marked {
        Ok(true) => StoreError::DamagedBlob(hash),
        Ok(false) => StoreError::NoBlob(hash),
        Err(error) => error,
    }
}

/// Unless another file is the blob's by now: that one was put to mend it. Answers whether there is such a blob at all.
async fn mark_damaged(base: Arc<Base>, hash: BlobHash, file: ObjectId) -> Result<bool, Failure> {
    let marked = base
        .collection::<BlobRow>(BLOBS)
        .update_one(
            doc! { "_id": hash.field(), "file": file },
            doc! { "$set": { "damaged": true } },
        )
        .await?;
    if marked.modified_count > 0 {
        tracing::error!(%hash, "a blob is damaged; put it again");
    }
    match marked.matched_count {
        0 => Ok(row_of(base, hash).await?.is_some()),
        _ => Ok(true),
    }
}

/// The sizes of those that exist, and a note that they were asked for.
pub(super) async fn has(base: Arc<Base>, hashes: Arc<Vec<BlobHash>>) -> Result<Vec<Option<u64>>, Failure> {
    let found = find(&base, &hashes).await?.whole;
    if !found.is_empty() {
        let ids: Vec<_> = found.keys().map(Field::field).collect();
        let age = age::now(&base).await?;
        let touched = base
            .collection::<BlobRow>(BLOBS)
            .update_many(
                doc! { "_id": { "$in": ids } },
                doc! { "$set": { "used": now().field(), "used_age": age.field() } },
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
pub(super) async fn retire(base: Arc<Base>, unused_since: Age, limit: usize) -> Result<usize, Failure> {
    let idle = idle(&base, unused_since, limit.min(TOGETHER)).await?;
    if idle.is_empty() {
        return Ok(0);
    }
    let mut transaction = Transaction::default();
    let unused = |row: &BlobRow| {
        doc! { "_id": row.hash.clone(), "refs": 0_i64, "used": row.used, "used_age": row.used_age }
    };
    transaction.delete_each(BLOBS, idle.iter().map(unused))?;
    transaction.update(UPLOADS, idle.iter().map(|row| files::doom(row.file)))?;
    transaction.commit(&base).await?;
    Ok(idle.len())
}

/// What cannot be read stays, and does not count.
async fn idle(base: &Base, unused_since: Age, limit: usize) -> Result<Vec<BlobRow>, Failure> {
    let mut at_once = limit;
    loop {
        let found: Vec<RawDocumentBuf> = base
            .collection(BLOBS)
            .find(doc! { "refs": 0_i64, "used_age": { "$lt": unused_since.field() } })
            .sort(doc! { "used_age": 1 })
            .hint(Hint::Name(IDLE.into()))
            .limit(i64::try_from(at_once).unwrap_or(i64::MAX))
            .read_concern(ReadConcern::local())
            .max_time(COMMAND)
            .await?
            .try_collect()
            .await?;
        let readable = found.iter().filter_map(|document| parse(base, document).ok());
        let idle: Vec<_> = readable.map(|(_, row)| row).take(limit).collect();
        if found.len() < at_once || !idle.is_empty() {
            return Ok(idle);
        }
        at_once *= 2;
    }
}

#[cfg(test)]
impl Found {
    pub(super) fn for_test(whole: BlobHash) -> Found {
        let row = BlobRow {
            hash: super::field::binary(whole.0.to_vec()),
            file: ObjectId::new(),
            size: 0,
            used: 0,
            used_age: None,
            damaged: false,
            refs: 0,
        };
        Found {
            whole: [(whole, row)].into(),
            ..Found::default()
        }
    }
}
