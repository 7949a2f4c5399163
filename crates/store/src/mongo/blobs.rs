//! Blobs: the bytes are in GridFS, and a document for each blob refers to its file.
//!
//! A blob exists when its document does. Each upload writes a file with a new id, so that two callers who put the same
//! blob at once do not write the same file; the blob's document then refers to one of the files.

mod scan;
mod upload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use model::{BlobHash, StoreAge};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, RawDocument, RawDocumentBuf, deserialize_from_slice, doc};
use mongodb::options::{Hint, ReadConcern};
use serde::{Deserialize, Serialize};

pub(super) use self::scan::{count_damaged, scan};
pub(super) use self::upload::put;
use super::age;
use super::bson_values::{ToBson, to_u64, unreadable};
use super::context::{BLOBS, StoreContext, UPLOADS, now};
use super::failure::MongoFailure;
use super::gridfs;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::schema::UNUSED_BLOBS_INDEX;
use super::transaction::{GroupedUpdate, Transaction};
use crate::{BlobStream, StoreError, verified_stream};

/// A document of the MongoDB collection `blobs`: which GridFS file holds a blob's bytes, and how the blob is used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BlobDocument {
    #[serde(rename = "_id")]
    hash: Binary,
    pub(super) file: ObjectId,
    size: i64,
    /// The wall clock time of the last put or lookup, for display only.
    used: i64,
    /// The store's age at that time.
    used_age: Option<i64>,
    /// Whether the stored bytes were found not to match the hash. Absent if not.
    #[serde(default, skip_serializing_if = "is_false")]
    damaged: bool,
    /// The number of references to the blob: one for each task whose spec, and one for each task whose result names it.
    refs: i64,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How many blobs one transaction removes.
const BLOBS_PER_TRANSACTION: usize = 50;
/// How many blobs one update changes.
const BLOBS_PER_UPDATE: usize = 1000;

/// Which blobs of a set of hashes the MongoDB store has, for `has_blobs` and before it adds tasks that need them.
#[derive(Debug, Default)]
pub(super) struct BlobLookup {
    /// Blobs that are not known to be damaged.
    pub(super) intact: HashMap<BlobHash, BlobDocument>,
    /// Blobs whose documents cannot be parsed, with the reason.
    pub(super) unreadable: HashMap<BlobHash, String>,
}

pub(super) async fn find(context: &StoreContext, hashes: &[BlobHash]) -> Result<BlobLookup, MongoFailure> {
    let ids: Vec<_> = hashes.iter().map(ToBson::to_bson).collect();
    let documents: Vec<RawDocumentBuf> = context
        .collection(BLOBS)
        .find(doc! { "_id": { "$in": ids }, "damaged": { "$ne": true } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let mut found = BlobLookup::default();
    for document in &documents {
        match (parse(context, document), hash_of(document)) {
            (Ok((hash, document)), _) => drop(found.intact.insert(hash, document)),
            (Err(problem), Some(hash)) => drop(found.unreadable.insert(hash, problem)),
            (Err(_), None) => {}
        }
    }
    Ok(found)
}

/// An unreadable document is logged.
fn parse(context: &StoreContext, document: &RawDocument) -> Result<(BlobHash, BlobDocument), String> {
    let parsed: Result<BlobDocument, _> = deserialize_from_slice(document.as_bytes());
    let problem = match (parsed, hash_of(document)) {
        (Ok(parsed), Some(hash)) if parsed.size >= 0 => return Ok((hash, parsed)),
        (Err(error), _) => error.to_string(),
        (Ok(_), Some(_)) => "its size is negative".to_string(),
        (Ok(_), None) => "its hash is not 32 bytes long".to_string(),
    };
    let id = document.get("_id").ok().flatten();
    context
        .unreadable_rows
        .record(format_args!("blob {id:?}"), &problem);
    Err(problem)
}

/// Parses the document of a blob that the caller named. An unreadable document is an error.
fn parse_required(
    context: &StoreContext,
    hash: BlobHash,
    document: &RawDocument,
) -> Result<BlobDocument, MongoFailure> {
    match parse(context, document) {
        Ok((_, document)) => Ok(document),
        Err(problem) => Err(unreadable("blob", format!("{hash}: {problem}"))),
    }
}

fn hash_of(document: &RawDocument) -> Option<BlobHash> {
    let id = document.get("_id").ok().flatten()?;
    id.as_binary()?.bytes.try_into().ok().map(BlobHash)
}

/// The bytes of a blob that a majority has, verified against the hash while they are read.
pub(super) async fn get(
    context: &Arc<StoreContext>,
    hash: BlobHash,
) -> Result<Option<BlobStream>, StoreError> {
    let found = RetryPolicy::new("look for a blob")
        .run(|_| find_document(context.clone(), hash))
        .await?;
    match found {
        None => Ok(None),
        Some(document) if document.damaged => Err(StoreError::DamagedBlob(hash)),
        Some(document) => read(context, hash, document.file, document.size).await.map(Some),
    }
}

async fn find_document(
    context: Arc<StoreContext>,
    hash: BlobHash,
) -> Result<Option<BlobDocument>, MongoFailure> {
    let found: Option<RawDocumentBuf> = context
        .collection(BLOBS)
        .find_one(doc! { "_id": hash.to_bson() })
        .max_time(COMMAND_TIMEOUT)
        .await?;
    found
        .map(|document| parse_required(&context, hash, &document))
        .transpose()
}

async fn read(
    context: &Arc<StoreContext>,
    hash: BlobHash,
    file: ObjectId,
    size: i64,
) -> Result<BlobStream, StoreError> {
    let size = to_u64("blob's size", size).map_err(|failure| failure.into_error("read a blob"))?;
    let bytes = gridfs::stream(context.clone(), file, size).map_err(move |error| match error {
        // A chunk is missing or has the wrong size.
        StoreError::Unreadable { .. } => StoreError::DamagedBlob(hash),
        error => error,
    });
    let context = context.clone();
    let on_damage =
        move || -> BoxFuture<'static, StoreError> { Box::pin(report_damage(context, hash, file)) };
    verified_stream::verify_blob(hash, bytes.boxed(), Box::new(on_damage)).await
}

/// Marks the blob as damaged, and returns the error for its reader.
async fn report_damage(context: Arc<StoreContext>, hash: BlobHash, file: ObjectId) -> StoreError {
    let marked = RetryPolicy::new("mark a damaged blob")
        .run(|_| mark_damaged(context.clone(), hash, file))
        .await;
    match marked {
        Ok(true) => StoreError::DamagedBlob(hash),
        Ok(false) => StoreError::BlobNotFound(hash),
        Err(error) => error,
    }
}

/// Marks the blob as damaged, unless it refers to another file by now, which was put to repair it. Returns whether the
/// blob exists.
async fn mark_damaged(
    context: Arc<StoreContext>,
    hash: BlobHash,
    file: ObjectId,
) -> Result<bool, MongoFailure> {
    let marked = context
        .collection::<BlobDocument>(BLOBS)
        .update_one(
            doc! { "_id": hash.to_bson(), "file": file },
            doc! { "$set": { "damaged": true } },
        )
        .await?;
    if marked.modified_count > 0 {
        tracing::error!(%hash, "blob is damaged; upload it again");
    }
    match marked.matched_count {
        0 => Ok(find_document(context, hash).await?.is_some()),
        _ => Ok(true),
    }
}

/// The sizes of the intact blobs. Records that they were used now.
pub(super) async fn has(
    context: Arc<StoreContext>,
    hashes: Arc<Vec<BlobHash>>,
) -> Result<Vec<Option<u64>>, MongoFailure> {
    let found = find(&context, &hashes).await?.intact;
    if !found.is_empty() {
        let ids: Vec<_> = found.keys().map(ToBson::to_bson).collect();
        let age = age::now(&context).await?;
        let touched = context
            .collection::<BlobDocument>(BLOBS)
            .update_many(
                doc! { "_id": { "$in": ids } },
                doc! { "$set": { "used": now().to_bson(), "used_age": age.to_bson() } },
            )
            .await?;
        if touched.matched_count != found.len() as u64 {
            // Retention removed one of them meanwhile.
            return Err(MongoFailure::Conflict);
        }
    }
    let size = |hash| {
        found
            .get(hash)
            .map(|document| to_u64("blob's size", document.size))
            .transpose()
    };
    hashes.iter().map(size).collect()
}

/// The updates that add `by` to the reference count of a blob for each of its hashes. Blobs with the same change share an
/// update: a result may name thousands of them.
pub(super) fn reference_count_updates<'h>(
    hashes: impl Iterator<Item = &'h BlobHash>,
    by: i64,
) -> Vec<GroupedUpdate> {
    let mut counts: BTreeMap<BlobHash, i64> = BTreeMap::new();
    for hash in hashes {
        *counts.entry(*hash).or_default() += by;
    }
    let mut blobs_by_change: BTreeMap<i64, Vec<Bson>> = BTreeMap::new();
    for (hash, by) in counts {
        blobs_by_change.entry(by).or_default().push(hash.to_bson());
    }
    let update = |(by, ids): (i64, Vec<Bson>)| {
        let parts: Vec<_> = ids.chunks(BLOBS_PER_UPDATE).map(<[Bson]>::to_vec).collect();
        parts.into_iter().map(move |ids| GroupedUpdate {
            ids,
            condition: doc! {},
            change: doc! { "$inc": { "refs": by } },
        })
    };
    blobs_by_change.into_iter().flat_map(update).collect()
}

/// Removes up to `limit` blobs that no task uses and that were last used before `unused_since`, at most as many as fit
/// into one transaction. Returns how many.
pub(super) async fn remove_unused(
    context: Arc<StoreContext>,
    unused_since: StoreAge,
    limit: usize,
) -> Result<usize, MongoFailure> {
    let unused = find_unused(&context, unused_since, limit.min(BLOBS_PER_TRANSACTION)).await?;
    if unused.is_empty() {
        return Ok(0);
    }
    let mut transaction = Transaction::default();
    let still_unused = |document: &BlobDocument| {
        doc! { "_id": document.hash.clone(), "refs": 0_i64, "used": document.used, "used_age": document.used_age }
    };
    transaction.delete_each(BLOBS, unused.iter().map(still_unused))?;
    transaction.update(
        UPLOADS,
        unused
            .iter()
            .map(|document| gridfs::schedule_deletion(document.file)),
    )?;
    transaction.commit(&context).await?;
    Ok(unused.len())
}

/// Unreadable documents stay, and do not count towards the limit.
async fn find_unused(
    context: &StoreContext,
    unused_since: StoreAge,
    limit: usize,
) -> Result<Vec<BlobDocument>, MongoFailure> {
    let mut read_limit = limit;
    loop {
        let found: Vec<RawDocumentBuf> = context
            .collection(BLOBS)
            .find(doc! { "refs": 0_i64, "used_age": { "$lt": unused_since.to_bson() } })
            .sort(doc! { "used_age": 1 })
            .hint(Hint::Name(UNUSED_BLOBS_INDEX.into()))
            .limit(i64::try_from(read_limit).unwrap_or(i64::MAX))
            .read_concern(ReadConcern::local())
            .max_time(COMMAND_TIMEOUT)
            .await?
            .try_collect()
            .await?;
        let readable = found.iter().filter_map(|document| parse(context, document).ok());
        let unused: Vec<_> = readable.map(|(_, document)| document).take(limit).collect();
        if found.len() < read_limit || !unused.is_empty() {
            return Ok(unused);
        }
        read_limit *= 2;
    }
}

#[cfg(test)]
impl BlobLookup {
    pub(super) fn for_test(intact: BlobHash) -> BlobLookup {
        let document = BlobDocument {
            hash: super::bson_values::binary(intact.0.to_vec()),
            file: ObjectId::new(),
            size: 0,
            used: 0,
            used_age: None,
            damaged: false,
            refs: 0,
        };
        BlobLookup {
            intact: [(intact, document)].into(),
            ..BlobLookup::default()
        }
    }
}
