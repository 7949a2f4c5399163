//! Retention: removes tasks that ended long ago, a limited number in each transaction.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::{GroupKey, StoreAge, TaskForm};
use mongodb::bson::{Binary, Document, doc};
use mongodb::options::{Hint, ReadConcern};

use super::age;
use super::blobs;
use super::bson_values::{ToBson, blob_hash};
use super::context::{BLOBS, PARTS, StoreContext, TASKS, UPLOADS};
use super::counters::CounterDeltas;
use super::failure::MongoFailure;
use super::gridfs;
use super::group_counters::{GroupDeltas, GroupStripe};
use super::retry::{COMMAND_TIMEOUT, RetryCount, RetryPolicy};
use super::schema::{DONE_TASKS_INDEX, UNUSED_BLOBS_INDEX};
use super::task_document::{StoredTask, TaskDocument, parse_readable};
use super::transaction::Transaction;
use crate::MAX_REFERENCES_REMOVED_AT_ONCE;

/// How many tasks one transaction removes.
const TASKS_PER_TRANSACTION: usize = 200;
/// Each failed try divides the number of tasks that one transaction removes by this.
const BATCH_REDUCTION: usize = 4;
/// How many documents one command stamps.
const STAMPS_PER_COMMAND: i64 = 1000;
/// No upload takes this long, so an unclaimed file of this age has no writer any more.
const UPLOAD_EXPIRY: Duration = Duration::from_secs(24 * 3600);

/// The tasks that one transaction of the MongoDB store's retention has removed.
#[derive(Default)]
pub(super) struct RemovedTasks {
    /// 0 when no tasks are left to remove.
    pub(super) count: usize,
    /// The groups of these tasks, which may be empty now.
    pub(super) groups: BTreeSet<GroupKey>,
}

/// Removes up to `limit` tasks that ended before `done_before`, at most as many as fit into one transaction, and fewer
/// after failed tries.
pub(super) async fn remove_tasks(
    context: Arc<StoreContext>,
    done_before: StoreAge,
    limit: usize,
    retries: RetryCount,
) -> Result<RemovedTasks, MongoFailure> {
    let reduction = BATCH_REDUCTION.saturating_pow(retries.0);
    let limits = RemovalLimits {
        tasks: (limit.min(TASKS_PER_TRANSACTION) / reduction).max(1),
        references: MAX_REFERENCES_REMOVED_AT_ONCE / reduction,
    };
    let documents = find_done(&context, done_before, limits).await?;
    if documents.is_empty() {
        return Ok(RemovedTasks::default());
    }
    let (mut deltas, mut group_deltas) = (CounterDeltas::default(), GroupDeltas::default());
    let mut groups = BTreeSet::new();
    let (mut hashes, mut content_documents, mut files) = (BTreeSet::new(), vec![], vec![]);
    for document in &documents {
        let state = StoredTask::try_from(document)?.state;
        deltas.remove(state.status);
        group_deltas.remove(&state);
        groups.extend(state.group);
        for content in [Some(&document.spec), document.result.as_ref()]
            .into_iter()
            .flatten()
        {
            content_documents.extend(content.document);
            files.extend(content.file);
        }
        for hash in referenced_blobs(document) {
            hashes.insert(blob_hash(hash)?);
        }
    }
    let mut transaction = Transaction::default();
    let conditions = documents
        .iter()
        .map(|document| doc! { "_id": document.id, "finish_time": document.finish_time, "retried": document.retried });
    transaction.delete_each(TASKS, conditions)?;
    // Missing content or a missing blob must not fail the transaction: its tasks would stay for ever.
    let content_documents = content_documents.into_iter().map(|id| doc! { "_id": id });
    transaction.delete_if_present(PARTS, content_documents)?;
    transaction.update(UPLOADS, files.into_iter().map(gridfs::schedule_deletion))?;
    transaction.update_grouped_if_present(BLOBS, blobs::examination_updates(&hashes))?;
    transaction.add_to_counters(&deltas)?;
    transaction.add_to_groups(&group_deltas, GroupStripe::random())?;
    transaction.commit(&context).await?;
    Ok(RemovedTasks {
        count: documents.len(),
        groups,
    })
}

fn referenced_blobs(document: &TaskDocument) -> impl Iterator<Item = &Binary> {
    document.blobs.iter().chain(&document.result_blobs)
}

/// How much one transaction of the MongoDB store's retention removes.
#[derive(Clone, Copy)]
struct RemovalLimits {
    tasks: usize,
    /// References to blobs. A single task may have more.
    references: usize,
}

/// Unreadable documents and those of newer forms stay, and do not count towards the limits.
async fn find_done(
    context: &StoreContext,
    before: StoreAge,
    limits: RemovalLimits,
) -> Result<Vec<TaskDocument>, MongoFailure> {
    let mut cursor = context
        .tasks()
        .find(doc! {
            "finish_time": { "$exists": true },
            "finish_age": { "$lt": before.to_bson() },
            // Also matches documents without a form.
            "form": { "$not": { "$gt": i64::from(TaskForm::NEWEST.0) } },
        })
        .projection(doc! { "digest": 0, "ran_on": 0, "spec.bytes": 0, "result.bytes": 0 })
        .sort(doc! { "finish_age": 1 })
        .hint(Hint::Name(DONE_TASKS_INDEX.into()))
        .batch_size(u32::try_from(limits.tasks).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let (mut documents, mut references) = (vec![], 0);
    while documents.len() < limits.tasks
        && references < limits.references.max(1)
        && let Some(document) = cursor.try_next().await?
    {
        for document in parse_readable(context, vec![document]) {
            if referenced_blobs(&document).all(|hash| blob_hash(hash).is_ok()) {
                references += referenced_blobs(&document).count();
                documents.push(document);
            }
        }
    }
    Ok(documents)
}

/// Judicators of schema version 1 write no ages. Tasks and blobs without one count as done or unused from now on.
/// Stamps a limited number and returns how many.
pub(super) async fn stamp_missing_ages(context: Arc<StoreContext>) -> Result<usize, MongoFailure> {
    let age = age::now(&context).await?;
    let done = doc! { "finish_time": { "$exists": true }, "finish_age": null };
    let unused = doc! { "refs": 0_i64, "used_age": null };
    let mut stamped = 0;
    for (collection, condition, index, stamp) in [
        (TASKS, done, DONE_TASKS_INDEX, "finish_age"),
        (BLOBS, unused, UNUSED_BLOBS_INDEX, "used_age"),
    ] {
        let unstamped: Vec<Document> = context
            .collection::<Document>(collection)
            .find(condition)
            .projection(doc! { "_id": 1 })
            .hint(Hint::Name(index.into()))
            .limit(STAMPS_PER_COMMAND)
            .read_concern(ReadConcern::local())
            .max_time(COMMAND_TIMEOUT)
            .await?
            .try_collect()
            .await?;
        if unstamped.is_empty() {
            continue;
        }
        let ids: Vec<_> = unstamped
            .iter()
            .filter_map(|document| document.get("_id").cloned())
            .collect();
        stamped += ids.len();
        context
            .collection::<Document>(collection)
            .update_many(
                doc! { "_id": { "$in": ids }, stamp: null },
                doc! { "$set": { stamp: age.to_bson() } },
            )
            .await?;
    }
    Ok(stamped)
}

/// Deletes files that are scheduled for deletion or whose upload has expired. An upload gets its age here, when
/// retention first finds it.
async fn delete_expired_uploads(context: Arc<StoreContext>) -> Result<usize, MongoFailure> {
    let age = age::now(&context).await?;
    context
        .collection::<Document>(UPLOADS)
        .update_many(doc! { "age": null }, doc! { "$set": { "age": age.to_bson() } })
        .await?;
    let expired = doc! { "age": { "$lt": age.minus(UPLOAD_EXPIRY).to_bson() } };
    gridfs::delete_discarded(context, expired, doc! {}).await
}

/// Deletes the files of removed tasks and blobs, and uploads that were never claimed. If this fails, the next retention
/// run continues.
pub(super) async fn delete_discarded_files(context: &Arc<StoreContext>) {
    loop {
        let deleted = RetryPolicy::new("delete discarded files")
            .run(|_| delete_expired_uploads(context.clone()))
            .await;
        match deleted {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "could not delete discarded files; the next retention run retries");
                return;
            }
        }
    }
}
