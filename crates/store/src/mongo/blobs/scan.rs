//! The scan of the blobs: lists them for verification, and finds files that no blob refers to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::{BlobHash, StoreAge};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::Hint;
use serde::Deserialize;

use super::{BlobDocument, parse};
use crate::BlobScanResult;
use crate::mongo::age;
use crate::mongo::bson_values::ToBson;
use crate::mongo::context::{BLOBS, FILES, StoreContext, UPLOADS};
use crate::mongo::failure::MongoFailure;
use crate::mongo::gridfs;
use crate::mongo::retry::COMMAND_TIMEOUT;
use crate::mongo::schema::{DAMAGED_BLOBS_INDEX, FILE_NAME_INDEX};
use crate::mongo::transaction::Transaction;

/// A file is deleted when two scans at least this far apart found no blob that refers to it. One scan is not enough: a
/// read just after an election may return older data than an earlier read.
const ORPHAN_GRACE_PERIOD: Duration = Duration::from_secs(3600);

/// The fields of a document of `fs.files` that the MongoDB store's blob scan reads to find orphaned files.
#[derive(Deserialize)]
struct GridFsFileDocument {
    #[serde(rename = "_id")]
    id: ObjectId,
    filename: String,
    /// The store's age when a scan first found that no blob refers to the file.
    orphan_age: Option<i64>,
}

pub(in crate::mongo) async fn scan(
    context: Arc<StoreContext>,
    first_byte: u8,
) -> Result<BlobScanResult, MongoFailure> {
    let files = files_of(&context, first_byte).await?;
    let documents = blobs_of(&context, first_byte).await?;
    let mut files_by_name = HashMap::new();
    let mut scanned = BlobScanResult::default();
    let parsed: Vec<_> = documents
        .iter()
        .filter_map(|document| parse(&context, document).ok())
        .collect();
    let all_readable = parsed.len() == documents.len();
    for (hash, document) in parsed {
        files_by_name.insert(hash.to_string(), document.file);
        if !document.damaged {
            scanned.intact.push(hash);
        }
    }
    // If a blob's document is unreadable, any of the files may belong to it.
    let orphans = files
        .into_iter()
        .filter(|_| all_readable)
        .filter(|file| files_by_name.get(&file.filename) != Some(&file.id));
    let (expired, recent): (Vec<_>, Vec<_>) = {
        let age = age::now(&context).await?;
        orphans.partition(|file| {
            file.orphan_age
                .is_some_and(|since| StoreAge(since) < age.minus(ORPHAN_GRACE_PERIOD))
        })
    };
    stamp_orphans(&context, recent).await?;
    scanned.orphans_removed = schedule_deletion(&context, expired).await?;
    Ok(scanned)
}

pub(in crate::mongo) async fn count_damaged(context: Arc<StoreContext>) -> Result<u64, MongoFailure> {
    let count = context
        .collection::<BlobDocument>(BLOBS)
        .count_documents(doc! { "damaged": true })
        .hint(Hint::Name(DAMAGED_BLOBS_INDEX.into()))
        .max_time(COMMAND_TIMEOUT)
        .await?;
    Ok(count)
}

async fn files_of(context: &StoreContext, first_byte: u8) -> Result<Vec<GridFsFileDocument>, MongoFailure> {
    let (first, last) = hash_range(first_byte);
    let files = context
        .collection::<GridFsFileDocument>(FILES)
        .find(doc! { "filename": { "$gte": first.to_string(), "$lte": last.to_string() } })
        .projection(doc! { "filename": 1, "orphan_age": 1 })
        .hint(Hint::Name(FILE_NAME_INDEX.into()))
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(files)
}

async fn blobs_of(context: &StoreContext, first_byte: u8) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let (first, last) = hash_range(first_byte);
    let found = context
        .collection(BLOBS)
        .find(doc! { "_id": { "$gte": first.to_bson(), "$lte": last.to_bson() } })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(found)
}

/// The first and the last hash that begin with this byte.
fn hash_range(first_byte: u8) -> (BlobHash, BlobHash) {
    let with = |rest: u8| {
        let mut hash = [rest; 32];
        hash[0] = first_byte;
        BlobHash(hash)
    };
    (with(0), with(0xff))
}

async fn stamp_orphans(context: &StoreContext, files: Vec<GridFsFileDocument>) -> Result<(), MongoFailure> {
    let unstamped = files.into_iter().filter(|file| file.orphan_age.is_none());
    let ids: Vec<_> = unstamped.map(|file| file.id).collect();
    if !ids.is_empty() {
        let age = age::now(context).await?;
        context
            .collection::<Document>(FILES)
            .update_many(
                doc! { "_id": { "$in": ids } },
                doc! { "$set": { "orphan_age": age.to_bson() } },
            )
            .await?;
    }
    Ok(())
}

/// Schedules files for deletion, which retention carries out. Returns how many were not scheduled before.
async fn schedule_deletion(
    context: &StoreContext,
    files: Vec<GridFsFileDocument>,
) -> Result<usize, MongoFailure> {
    let ids: Vec<_> = files.iter().map(|file| file.id).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let scheduled: Vec<Document> = context
        .collection::<Document>(UPLOADS)
        .find(doc! { "_id": { "$in": &ids } })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let is_scheduled = |id: &ObjectId| {
        scheduled
            .iter()
            .any(|mark| mark.get_object_id("_id").is_ok_and(|scheduled| scheduled == *id))
    };
    let orphans: Vec<_> = ids.into_iter().filter(|id| !is_scheduled(id)).collect();
    let mut transaction = Transaction::default();
    transaction.update(UPLOADS, orphans.iter().copied().map(gridfs::schedule_deletion))?;
    transaction.commit(context).await?;
    for id in &orphans {
        tracing::warn!(file = %id, "removing a file that no blob refers to");
    }
    Ok(orphans.len())
}
