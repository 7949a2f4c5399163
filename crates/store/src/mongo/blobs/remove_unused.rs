//! Removes blobs that no task and no problem uses.
//!
//! A transaction that refers to a blob only reads the blob's document, because many of them refer to the same blob at once
//! and would conflict if they wrote it. So nothing stops a transaction that has read the document from committing after
//! retention has found no task and no problem that names the blob. Retention therefore marks the blob first, which no later
//! transaction accepts, and waits until all transactions have ended that may have read the document before. What they
//! committed is visible then.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{BlobHash, StoreAge};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};

use super::{BlobDocument, parse};
use crate::mongo::bson_values::{ToBson, blob_hash};
use crate::mongo::context::{BLOBS, EXECUTORS, LEDGER, PROBLEMS, StoreContext, TASKS, UPLOADS};
use crate::mongo::failure::MongoFailure;
use crate::mongo::gridfs;
use crate::mongo::retry::COMMAND_TIMEOUT;
use crate::mongo::schema::{BY_BLOB_INDEX, BY_RESULT_BLOB_INDEX, UNUSED_BLOBS_INDEX};
use crate::mongo::transaction::Transaction;

/// How many blobs one transaction removes.
const BLOBS_PER_TRANSACTION: usize = 200;
/// How many tasks or problems one query for the users of blobs returns.
const USERS_PER_QUERY: i64 = 10;

/// What one run of the MongoDB store's retention has done with blobs that nobody has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mongo) struct ExaminedBlobs {
    /// 0 when no blobs are left to examine.
    pub(in crate::mongo) examined: usize,
    pub(in crate::mongo) removed: usize,
}

/// Examines up to `limit` blobs that were last used before `unused_since`, at most as many as fit into one transaction.
/// Removes those that no task and no problem names.
pub(in crate::mongo) async fn remove_unused(
    context: Arc<StoreContext>,
    unused_since: StoreAge,
    limit: usize,
) -> Result<ExaminedBlobs, MongoFailure> {
    let run = ObjectId::new();
    let found = find_candidates(&context, unused_since, limit.min(BLOBS_PER_TRANSACTION)).await?;
    let examined = found.len();
    if found.is_empty() {
        return Ok(ExaminedBlobs::default());
    }
    mark(
        &context,
        &found,
        doc! { "refs": 0_i64 },
        doc! { "examined_by": run },
    )
    .await?;
    let unused = keep_used(&context, run, found).await?;
    if unused.is_empty() {
        return Ok(ExaminedBlobs { examined, removed: 0 });
    }
    let not_used_since = doc! { "examined_by": run, "used_age": { "$lt": unused_since.to_bson() } };
    mark(&context, &unused, not_used_since, doc! { "removed_by": run }).await?;
    wait_for_transactions(&context, run).await?;
    let unused = keep_used(&context, run, unused).await?;
    let mut transaction = Transaction::default();
    let still_marked =
        |blob: &BlobDocument| doc! { "_id": blob.hash.clone(), "removed_by": run, "file": blob.file };
    transaction.delete_each(BLOBS, unused.iter().map(still_marked))?;
    let files = unused.iter().map(|blob| gridfs::schedule_deletion(blob.file));
    transaction.update(UPLOADS, files)?;
    transaction.commit(&context).await?;
    Ok(ExaminedBlobs {
        examined,
        removed: unused.len(),
    })
}

/// Unreadable documents stay, and do not count towards the limit.
async fn find_candidates(
    context: &StoreContext,
    unused_since: StoreAge,
    limit: usize,
) -> Result<Vec<BlobDocument>, MongoFailure> {
    let mut cursor = context
        .collection::<RawDocumentBuf>(BLOBS)
        .find(doc! { "refs": 0_i64, "used_age": { "$lt": unused_since.to_bson() } })
        .sort(doc! { "used_age": 1 })
        .hint(Hint::Name(UNUSED_BLOBS_INDEX.into()))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let mut found = vec![];
    while found.len() < limit
        && let Some(document) = cursor.try_next().await?
    {
        found.extend(parse(context, &document).ok().map(|(_, document)| document));
    }
    Ok(found)
}

async fn mark(
    context: &StoreContext,
    blobs: &[BlobDocument],
    mut condition: Document,
    mark: Document,
) -> Result<(), MongoFailure> {
    let ids: Vec<_> = blobs.iter().map(|blob| blob.hash.clone()).collect();
    condition.insert("_id", doc! { "$in": ids });
    let blobs = context.collection::<Document>(BLOBS);
    blobs.update_many(condition, doc! { "$set": mark }).await?;
    Ok(())
}

/// Returns the blobs that no task and no problem names. The others are not examined again until a task or problem is removed
/// that names them. If that has happened since the run began, the blob has lost the mark of the run.
async fn keep_used(
    context: &StoreContext,
    run: ObjectId,
    blobs: Vec<BlobDocument>,
) -> Result<Vec<BlobDocument>, MongoFailure> {
    let used = find_used(context, &blobs).await?;
    let is_used = |blob: &BlobDocument| blob_hash(&blob.hash).is_ok_and(|hash| used.contains(&hash));
    let (used, unused): (Vec<_>, Vec<_>) = blobs.into_iter().partition(is_used);
    if !used.is_empty() {
        let ids: Vec<_> = used.iter().map(|blob| blob.hash.clone()).collect();
        context
            .collection::<Document>(BLOBS)
            .update_many(
                doc! { "_id": { "$in": ids }, "examined_by": run },
                doc! { "$set": { "refs": 1_i64 }, "$unset": { "examined_by": "", "removed_by": "" } },
            )
            .await?;
    }
    Ok(unused)
}

/// The blobs that tasks or problems name. Each query finds at least one more of them, and costs the same however many name
/// it.
async fn find_used(
    context: &StoreContext,
    blobs: &[BlobDocument],
) -> Result<HashSet<BlobHash>, MongoFailure> {
    let mut used = HashSet::new();
    for (collection, field, index) in [
        (TASKS, "blobs", BY_BLOB_INDEX),
        (TASKS, "result_blobs", BY_RESULT_BLOB_INDEX),
        (PROBLEMS, "blobs", BY_BLOB_INDEX),
    ] {
        let mut left = vec![];
        for blob in blobs {
            left.push(blob_hash(&blob.hash)?);
        }
        loop {
            left.retain(|hash| !used.contains(hash));
            let ids: Vec<_> = left.iter().map(ToBson::to_bson).collect();
            let users: Vec<Document> = context
                .collection::<Document>(collection)
                .find(doc! { field: { "$in": ids } })
                .projection(doc! { field: 1 })
                .hint(Hint::Name(index.into()))
                .limit(USERS_PER_QUERY)
                .read_concern(ReadConcern::local())
                .max_time(COMMAND_TIMEOUT)
                .await?
                .try_collect()
                .await?;
            if users.is_empty() {
                break;
            }
            for value in users.iter().filter_map(|user| user.get(field)) {
                // An unreadable document may have a single value.
                let values = value
                    .as_array()
                    .map_or(std::slice::from_ref(value), Vec::as_slice);
                for value in values {
                    if let Bson::Binary(hash) = value {
                        used.extend(blob_hash(hash).ok());
                    }
                }
            }
        }
    }
    Ok(used)
}

/// Returns when every transaction has ended that refers to blobs as they were before. Each of them writes the document of
/// its executor or a stripe of the ledger. A write to such a document waits for a transaction that has written it, and
/// makes a transaction fail that began before and writes it later.
async fn wait_for_transactions(context: &StoreContext, run: ObjectId) -> Result<(), MongoFailure> {
    for collection in [EXECUTORS, LEDGER] {
        let documents = context.collection::<Document>(collection);
        documents
            .update_many(doc! {}, doc! { "$set": { "touched": run } })
            .await?;
    }
    Ok(())
}
