//! Reads the first tasks of the queue. Tasks with a requirement are queued under its key, in an index of their own, so that a
//! claim reads only those whose requirement the executor satisfies.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::try_join_all;
use futures::{TryStreamExt, try_join};
use model::{Capacity, TaskForm};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};

use super::claim_scope::ClaimScope;
use crate::MAX_SKIPPED_TASKS;
use crate::mongo::bson_values::task_id;
use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::COMMAND_TIMEOUT;
use crate::mongo::schema::{QUEUE_INDEX, REQUIRED_QUEUE_INDEX};
use crate::mongo::task_document::{StoredTask, TaskDocument, parse_readable, without_result};

/// How many keys one read names. The server merges the queues of up to 200 keys in their order; for more it would read and
/// sort them whole.
const KEYS_IN_ONE_READ: usize = 100;

/// The numbers of unclaimable documents that the last reads found at the heads of the MongoDB store's queues.
#[derive(Debug, Default)]
pub(super) struct UnclaimableCounts {
    without_requirement: AtomicUsize,
    with_requirement: AtomicUsize,
}

/// A part of the MongoDB store's queue.
#[derive(Clone, Copy, Debug)]
enum QueuePart<'k> {
    WithoutRequirement,
    /// The tasks whose requirements have these keys.
    Requiring(&'k [String]),
}

/// Which tasks of a part of the MongoDB store's queue a claim may take. It skips the others, a limited number of them.
#[derive(Clone, Copy, Debug)]
struct ClaimFilter {
    /// If set, only tasks that fit.
    capacity: Option<Capacity>,
    newest_form: TaskForm,
}

/// Reads the first `limit` tasks that the executor may claim. `keys` are the requirements of which there may be tasks.
pub(super) async fn first_tasks(
    context: &StoreContext,
    limit: usize,
    scope: &ClaimScope,
    keys: &[String],
) -> Result<Vec<TaskDocument>, MongoFailure> {
    let filter = |capacity| ClaimFilter {
        capacity,
        newest_form: scope.newest_form,
    };
    let limit_of_key = |key: &String| scope.capacity_limit(Some(key));
    // The limit is the same for all keys that have one.
    let (limited, unlimited): (Vec<_>, Vec<_>) =
        keys.iter().cloned().partition(|key| limit_of_key(key).is_some());
    let capacity = limited.first().and_then(limit_of_key);
    let limited = limited.chunks(KEYS_IN_ONE_READ).map(|keys| (keys, capacity));
    let unlimited = unlimited.chunks(KEYS_IN_ONE_READ).map(|keys| (keys, None));
    let requiring = limited
        .chain(unlimited)
        .map(|(keys, capacity)| read_part(context, QueuePart::Requiring(keys), limit, filter(capacity)));
    let without_requirement = read_part(
        context,
        QueuePart::WithoutRequirement,
        limit,
        filter(scope.capacity_limit(None)),
    );
    let (mut documents, requiring) = try_join!(without_requirement, try_join_all(requiring))?;
    if requiring.iter().any(|part| !part.is_empty()) {
        documents.extend(requiring.into_iter().flatten());
        documents.sort_by_key(|document| {
            let priority = -i64::from(document.priority);
            (priority, document.add_time, document.id.bytes())
        });
        documents.truncate(limit);
    }
    Ok(documents)
}

/// Reads the first `limit` tasks of a part of the queue. Documents that are unreadable or not really queued stay at the
/// head, so the read includes as many more documents.
async fn read_part(
    context: &StoreContext,
    part: QueuePart<'_>,
    limit: usize,
    filter: ClaimFilter,
) -> Result<Vec<TaskDocument>, MongoFailure> {
    let counts = &context.reservations.unclaimable;
    let count = match part {
        QueuePart::WithoutRequirement => &counts.without_requirement,
        QueuePart::Requiring(_) => &counts.with_requirement,
    };
    loop {
        let expected = count.load(Ordering::Relaxed);
        let found = find_claimable(context, part, limit + expected, filter).await?;
        let read = found.len();
        let documents = parse_readable(context, found);
        if move_misplaced(context, part, &documents).await? {
            continue;
        }
        let documents: Vec<_> = documents
            .into_iter()
            .filter(|document| is_queued(context, document))
            .collect();
        let unclaimable = read - documents.len();
        count.store(unclaimable, Ordering::Relaxed);
        if unclaimable <= expected || read < limit + expected {
            return Ok(documents);
        }
    }
}

/// A judicator of an earlier version that releases a task with a requirement puts it into the queue of the tasks without
/// one. Moves such tasks to their own queue. Returns whether there were any.
async fn move_misplaced(
    context: &StoreContext,
    part: QueuePart<'_>,
    documents: &[TaskDocument],
) -> Result<bool, MongoFailure> {
    let QueuePart::WithoutRequirement = part else {
        return Ok(false);
    };
    let misplaced = documents.iter().filter(|document| document.needs.is_some());
    let ids: Vec<_> = misplaced.map(|document| Bson::from(document.id)).collect();
    if ids.is_empty() {
        return Ok(false);
    }
    // It may have been cancelled by such a judicator, too.
    let is_missing = |field: &str| doc! { "$eq": [{ "$type": field }, "missing"] };
    let is_queued = doc! { "$and": [is_missing("$finish_time"), is_missing("$executor")] };
    context
        .tasks()
        .update_many(
            doc! { "_id": { "$in": ids }, "waits": true, "needs": { "$exists": true } },
            vec![
                doc! { "$set": { "waits_for": { "$cond": [is_queued, "$needs", "$$REMOVE"] } } },
                doc! { "$unset": "waits" },
            ],
        )
        .await?;
    Ok(true)
}

/// Whether a document in the queue's index belongs there. A done or held task cannot be claimed and must not count.
fn is_queued(context: &StoreContext, document: &TaskDocument) -> bool {
    let queued = StoredTask::try_from(document).is_ok_and(|task| task.state.is_queued());
    if !queued {
        let problem = "it is in the queue, but it is done or an executor holds it";
        context
            .unreadable_rows
            .record(format_args!("task {}", task_id(document.id)), problem);
    }
    queued
}

/// Tasks of newer forms are in the queue only during an upgrade. So the first read does not filter by the form, and a
/// second one does if it has to.
async fn find_claimable(
    context: &StoreContext,
    part: QueuePart<'_>,
    limit: usize,
    filter: ClaimFilter,
) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let found = match filter.capacity {
        Some(_) => find_first_within(context, part, limit, (filter.capacity, None)).await?,
        None => find_first(context, part, limit).await?,
    };
    let form = |document: &RawDocumentBuf| {
        let form = document.get("form").ok().flatten()?.as_i64()?;
        u32::try_from(form).ok().map(TaskForm)
    };
    let newest = found.iter().filter_map(form).max();
    match newest {
        Some(newest) if newest > filter.newest_form => {
            context.newer_forms.record_if_unknown(newest);
            find_first_within(context, part, limit, (filter.capacity, Some(filter.newest_form))).await
        }
        _ => Ok(found),
    }
}

async fn find_first(
    context: &StoreContext,
    part: QueuePart<'_>,
    limit: usize,
) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let documents = context
        .tasks()
        .find(part.condition())
        .projection(without_result())
        .sort(queue_order())
        .hint(part.index())
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(documents)
}

/// The same for tasks that fit a capacity and have no newer form. Skips a limited number of tasks that do not.
async fn find_first_within(
    context: &StoreContext,
    part: QueuePart<'_>,
    limit: usize,
    (capacity, newest_form): (Option<Capacity>, Option<TaskForm>),
) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let bounded = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    // `$not` also matches documents without the field.
    let mut claimable = doc! {};
    if let Some(capacity) = capacity {
        let memory = i64::try_from(capacity.memory).unwrap_or(i64::MAX);
        claimable.insert("need_memory", doc! { "$not": { "$gt": memory } });
        let processes = i64::from(capacity.processes);
        claimable.insert("need_processes", doc! { "$not": { "$gt": processes } });
    }
    if let Some(newest) = newest_form {
        claimable.insert("form", doc! { "$not": { "$gt": i64::from(newest.0) } });
    }
    let documents = context
        .tasks()
        .aggregate([
            doc! { "$match": part.condition() },
            doc! { "$sort": queue_order() },
            doc! { "$limit": bounded(limit + MAX_SKIPPED_TASKS) },
            doc! { "$match": claimable },
            doc! { "$limit": bounded(limit) },
            doc! { "$project": without_result() },
        ])
        .hint(part.index())
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    Ok(documents)
}

impl QueuePart<'_> {
    fn condition(self) -> Document {
        match self {
            QueuePart::WithoutRequirement => doc! { "waits": true },
            QueuePart::Requiring(keys) => doc! { "waits_for": { "$in": keys } },
        }
    }

    fn index(self) -> Hint {
        let name = match self {
            QueuePart::WithoutRequirement => QUEUE_INDEX,
            QueuePart::Requiring(_) => REQUIRED_QUEUE_INDEX,
        };
        Hint::Name(name.into())
    }
}

/// The sort order of the queue: highest priority first, then oldest.
pub(in crate::mongo) fn queue_order() -> Document {
    doc! { "priority": -1, "add_time": 1, "_id": 1 }
}

/// The order of the index of the tasks with a requirement: those of each key in the order of the queue.
pub(in crate::mongo) fn required_queue_order() -> Document {
    let mut order = doc! { "waits_for": 1 };
    order.extend(queue_order());
    order
}
