//! Blobs: the bytes are in GridFS, and a document for each blob refers to its file.
//!
//! A blob exists when its document does. Each upload writes a file with a new id, so that two callers who put the same
//! blob at once do not write the same file; the blob's document then refers to one of the files.

mod remove_unused;
mod scan;
mod upload;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use model::{BlobHash, StoreAge};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, Document, RawDocument, RawDocumentBuf, deserialize_from_slice, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

pub(super) use self::remove_unused::remove_unused;
pub(super) use self::scan::{count_damaged, scan};
pub(super) use self::upload::put;
use super::age;
use super::bson_values::{ToBson, to_u64, unreadable};
use super::context::{BLOBS, StoreContext, now};
use super::failure::MongoFailure;
use super::gridfs;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
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
    /// 0 if retention must look whether a task names the blob. Otherwise a task did when retention last looked. Earlier
    /// versions counted the tasks.
    refs: i64,
    /// The run of retention that looks whether a task names the blob. Retention of tasks removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    examined_by: Option<ObjectId>,
    /// The run of retention that is about to remove the blob: no transaction may refer to it. A use removes this mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removed_by: Option<ObjectId>,
}

fn is_false(value: &bool) -> bool {
    !value
}

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

/// Looks for blobs that a transaction is about to refer to. Those that retention is about to remove are kept.
pub(super) async fn find(context: &StoreContext, hashes: &[BlobHash]) -> Result<BlobLookup, MongoFailure> {
    let found = read_all(context, hashes).await?;
    let being_removed = found.intact.values().filter(|blob| blob.removed_by.is_some());
    record_use(context, being_removed.collect()).await?;
    Ok(found)
}

async fn read_all(context: &StoreContext, hashes: &[BlobHash]) -> Result<BlobLookup, MongoFailure> {
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
    match find_intact(context, hash).await? {
        None => Ok(None),
        Some(document) => read(context, hash, &document).await.map(Some),
    }
}

/// The bytes of a blob from an offset on, without verification.
pub(super) async fn get_from(
    context: &Arc<StoreContext>,
    hash: BlobHash,
    offset: u64,
) -> Result<Option<BlobStream>, StoreError> {
    let Some(document) = find_intact(context, hash).await? else {
        return Ok(None);
    };
    Ok(Some(chunks(context, hash, &document, offset)?))
}

/// `None` if the blob does not exist. One that is marked as damaged is an error.
async fn find_intact(
    context: &Arc<StoreContext>,
    hash: BlobHash,
) -> Result<Option<BlobDocument>, StoreError> {
    let found = RetryPolicy::new("look for a blob")
        .run(|_| find_document(context.clone(), hash))
        .await?;
    match found {
        Some(document) if document.damaged => Err(StoreError::DamagedBlob(hash)),
        found => Ok(found),
    }
}

/// The bytes of a blob's file from an offset on.
fn chunks(
    context: &Arc<StoreContext>,
    hash: BlobHash,
    document: &BlobDocument,
    offset: u64,
) -> Result<BlobStream, StoreError> {
    let size = to_u64("blob's size", document.size).map_err(|failure| failure.into_error("read a blob"))?;
    let bytes = gridfs::stream(context.clone(), document.file, offset..size);
    let bytes = bytes.map_err(move |error| match error {
        // A chunk is missing or has the wrong size.
        StoreError::Unreadable { .. } => StoreError::DamagedBlob(hash),
        error => error,
    });
    Ok(bytes.boxed())
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
    document: &BlobDocument,
) -> Result<BlobStream, StoreError> {
    let bytes = chunks(context, hash, document, 0)?;
    let (context, file) = (context.clone(), document.file);
    let on_damage =
        move || -> BoxFuture<'static, StoreError> { Box::pin(report_damage(context, hash, file)) };
    verified_stream::verify_blob(hash, bytes, Box::new(on_damage)).await
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
    let found = read_all(&context, &hashes).await?.intact;
    if !found.is_empty() {
        let age = age::now(&context).await?;
        let is_recorded = |blob: &BlobDocument| blob.used_age >= Some(age.0) && blob.removed_by.is_none();
        // Many callers ask for the same blob, so it is not written for each of them.
        let unrecorded = found.values().filter(|blob| !is_recorded(blob));
        record_use(&context, unrecorded.collect()).await?;
    }
    let size = |hash| {
        found
            .get(hash)
            .map(|document| to_u64("blob's size", document.size))
            .transpose()
    };
    hashes.iter().map(size).collect()
}

async fn record_use(context: &StoreContext, blobs: Vec<&BlobDocument>) -> Result<(), MongoFailure> {
    if blobs.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = blobs.iter().map(|blob| blob.hash.clone()).collect();
    let age = age::now(context).await?;
    let recorded = context
        .collection::<BlobDocument>(BLOBS)
        .update_many(doc! { "_id": { "$in": ids } }, use_change(age))
        .await?;
    match recorded.matched_count == blobs.len() as u64 {
        true => Ok(()),
        // Retention removed one of them meanwhile.
        false => Err(MongoFailure::Conflict),
    }
}

/// The change that records a use at this age. Retention then does not remove the blob, even if it was about to.
fn use_change(age: StoreAge) -> Document {
    doc! {
        // `$max`: a retry that takes effect late does not set the times back.
        "$max": { "used": now().to_bson(), "used_age": age.to_bson() },
        "$unset": { "removed_by": "" },
    }
}

/// The transaction fails unless these blobs exist and retention is not about to remove them. It must also write a document
/// for which [`remove_unused`] waits.
pub(super) fn require<'h>(hashes: impl Iterator<Item = &'h BlobHash>, transaction: &mut Transaction) {
    let hashes: BTreeSet<_> = hashes.collect();
    let ids = hashes.into_iter().map(ToBson::to_bson).collect();
    let usable = doc! { "damaged": { "$ne": true }, "removed_by": null };
    transaction.require(BLOBS, ids, usable);
}

/// The updates after which retention looks whether tasks still name these blobs.
pub(super) fn examination_updates(hashes: &BTreeSet<BlobHash>) -> Vec<GroupedUpdate> {
    let ids: Vec<Bson> = hashes.iter().map(ToBson::to_bson).collect();
    let update = |ids: &[Bson]| GroupedUpdate {
        ids: ids.to_vec(),
        condition: doc! {},
        change: doc! { "$set": { "refs": 0_i64 }, "$unset": { "examined_by": "" } },
    };
    ids.chunks(BLOBS_PER_UPDATE).map(update).collect()
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
            examined_by: None,
            removed_by: None,
        };
        BlobLookup {
            intact: [(intact, document)].into(),
            ..BlobLookup::default()
        }
    }
}
