//! Reads the head of the queue, and reserves its tasks among the concurrent reports of this process.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use model::{Capacity, Report, ReportIntent, TaskForm, TaskId};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::mongo::bson_values::task_id;
use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::{COMMAND_TIMEOUT, RetryCount, random_u64};
use crate::mongo::schema::QUEUE_INDEX;
use crate::mongo::session;
use crate::mongo::task_document::{StoredTask, TaskDocument, parse_readable, without_result};
use crate::{MAX_ANSWER_TASKS, MAX_SKIPPED_TASKS};

/// After this many conflicts a report claims nothing. The next report claims again.
const MAX_CONTENDED_RETRIES: RetryCount = RetryCount(6);
const FIRST_TRY: RetryCount = RetryCount(0);
/// How long a report waits for its turn to read the queue.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);
/// How many tasks a claim may skip at the head of the queue, in multiples of the number of tasks that it wants, to
/// avoid conflicts with other judicators.
const MAX_SPREAD: usize = 6;

/// The queued MongoDB tasks that reports in progress in this process are about to claim. They keep two reports from
/// trying to claim the same task.
#[derive(Debug, Default)]
pub(in crate::mongo) struct ClaimReservations {
    /// Serializes the reads of the queue, so that each read sees the reservations of the earlier ones.
    turn: tokio::sync::Mutex<()>,
    /// The priorities of the reserved tasks.
    tasks: Mutex<HashMap<TaskId, i32>>,
    /// Notified when reservations are released.
    released: Notify,
    /// How far claims skip at the head of the queue: it grows with each conflict with another judicator, and shrinks
    /// without conflicts.
    spread: AtomicUsize,
    /// How many unclaimable documents the last read found at the head of the queue.
    unreadable: AtomicUsize,
}

/// Tasks from the head of the MongoDB store's queue, reserved for one report until this is dropped.
pub(super) struct QueueHead<'r> {
    pub(super) tasks: Vec<TaskDocument>,
    /// Whether `tasks` may lack tasks of the queue that this report must not claim now. Tasks that the report gives
    /// back may be behind those in the queue.
    pub(super) tasks_withheld: bool,
    /// If set, the report claims only tasks that fit.
    pub(super) capacity: Option<Capacity>,
    reservations: &'r ClaimReservations,
}

impl ClaimReservations {
    fn count(&self) -> usize {
        self.lock().len()
    }

    /// Adapts the spread: a retry means that another judicator claimed the same tasks.
    fn spread(&self, retries: RetryCount) -> usize {
        let spread = self.spread.load(Ordering::Relaxed);
        let next = match retries {
            RetryCount(0) if random_u64().is_multiple_of(8) => spread.saturating_sub(1),
            RetryCount(0) => spread,
            RetryCount(_) => (spread + 2).min(MAX_SPREAD),
        };
        self.spread.store(next, Ordering::Relaxed);
        next
    }

    /// Reserves up to `wanted` free tasks. Leaves out tasks with a lower priority than a reserved task, because the
    /// report that reserved it may fail to claim it. Returns `None` if all free tasks are left out for that reason.
    fn reserve(
        &self,
        documents: Vec<TaskDocument>,
        wanted: usize,
        max_skipped: usize,
    ) -> Option<QueueHead<'_>> {
        let mut reserved = self.lock();
        let mut free = documents;
        free.retain(|document| !reserved.contains_key(&task_id(document.id)));
        let priorities: Vec<_> = free.iter().map(|document| document.priority).collect();
        free.drain(skipped_range(&priorities, wanted, max_skipped, random_u64()));
        free.truncate(wanted);
        let found = free.len();
        if let Some(highest) = reserved.values().max().copied() {
            free.retain(|document| document.priority >= highest);
            if free.is_empty() && found > 0 {
                return None;
            }
        }
        let tasks_withheld = free.len() < found;
        reserved.extend(
            free.iter()
                .map(|document| (task_id(document.id), document.priority)),
        );
        Some(QueueHead {
            tasks: free,
            tasks_withheld,
            capacity: None,
            reservations: self,
        })
    }

    pub(super) fn empty_head(&self) -> QueueHead<'_> {
        QueueHead {
            tasks: vec![],
            tasks_withheld: true,
            capacity: None,
            reservations: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, i32>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueHead<'_> {
    fn drop(&mut self) {
        let mut reserved = self.reservations.lock();
        for document in &self.tasks {
            reserved.remove(&task_id(document.id));
        }
        drop(reserved);
        self.reservations.released.notify_waiters();
    }
}

/// Which tasks at the head of the queue a claim skips, at random, to avoid conflicts with other judicators. Tasks with
/// a higher priority always go first: only tasks with the lowest priority among the first `wanted` are skipped, in
/// favour of others with the same priority, and at most `max_skipped` of them.
fn skipped_range(priorities: &[i32], wanted: usize, max_skipped: usize, random: u64) -> Range<usize> {
    let Some(lowest) = wanted.checked_sub(1).and_then(|last| priorities.get(last)) else {
        return 0..0;
    };
    let higher = priorities
        .iter()
        .take_while(|priority| *priority > lowest)
        .count();
    let same_priority = priorities[higher..]
        .iter()
        .take_while(|priority| *priority == lowest)
        .count();
    let skippable = (higher + same_priority - wanted).min(max_skipped);
    higher..higher + random as usize % (skippable + 1)
}

/// How many tasks the answer to a report may assign.
pub(super) fn task_limit(report: &Report) -> usize {
    report.vacant.min(MAX_ANSWER_TASKS) as usize
}

/// The newest form of tasks that the report may claim: both this program and the executor must know it.
pub(super) fn newest_form(report: &Report) -> TaskForm {
    report.executor_info.newest_form.min(TaskForm::NEWEST)
}

/// Which tasks of the MongoDB store's queue a claim may take. It skips the others, a limited number of them.
#[derive(Clone, Copy, Debug)]
struct ClaimFilter {
    /// If set, only tasks that fit.
    capacity: Option<Capacity>,
    newest_form: TaskForm,
}

/// Reserves as many tasks as the report asks for, in the order of the queue. While there are conflicts with other
/// judicators, it skips some tasks in favour of others with the same priority.
pub(super) async fn reserve<'b>(
    context: &'b StoreContext,
    report: &Report,
    retries: RetryCount,
) -> Result<QueueHead<'b>, MongoFailure> {
    let wanted = task_limit(report);
    if wanted == 0 || report.intent == ReportIntent::Leave || retries >= MAX_CONTENDED_RETRIES {
        return Ok(context.reservations.empty_head());
    }
    let capacity = match report.executor_info.capacity {
        Some(own) if session::has_larger(context, own).await? => Some(own.claim_limit()),
        _ => None,
    };
    let filter = ClaimFilter {
        capacity,
        newest_form: newest_form(report),
    };
    let max_skipped = wanted * context.reservations.spread(retries);
    let deadline = Instant::now() + TURN_TIMEOUT;
    loop {
        // If the server does not reply to the report whose turn it is, the others continue without a claim.
        let Ok(turn) = timeout_at(deadline, context.reservations.turn.lock()).await else {
            return Ok(context.reservations.empty_head());
        };
        let released = context.reservations.released.notified();
        let reserved = context.reservations.count();
        let documents = read_queue(context, wanted + reserved + max_skipped, filter).await?;
        if let Some(mut head) = context.reservations.reserve(documents, wanted, max_skipped) {
            head.capacity = capacity;
            return Ok(head);
        }
        drop(turn);
        // A report is also a heartbeat, so it waits only in its first try.
        if retries > FIRST_TRY || timeout_at(deadline, released).await.is_err() {
            return Ok(context.reservations.empty_head());
        }
    }
}

/// Reads the first `limit` tasks of the queue. Documents that are unreadable or not really queued stay at the head, so
/// the read includes as many more documents.
async fn read_queue(
    context: &StoreContext,
    limit: usize,
    filter: ClaimFilter,
) -> Result<Vec<TaskDocument>, MongoFailure> {
    loop {
        let expected = context.reservations.unreadable.load(Ordering::Relaxed);
        let found = find_claimable(context, limit + expected, filter).await?;
        let read = found.len();
        let documents: Vec<_> = parse_readable(context, found)
            .into_iter()
            .filter(|document| is_queued(context, document))
            .collect();
        let unreadable = read - documents.len();
        context
            .reservations
            .unreadable
            .store(unreadable, Ordering::Relaxed);
        if unreadable <= expected || read < limit + expected {
            return Ok(documents);
        }
    }
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
    limit: usize,
    filter: ClaimFilter,
) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let found = match filter.capacity {
        Some(_) => find_first_within(context, limit, filter.capacity, None).await?,
        None => find_first(context, limit).await?,
    };
    let form = |document: &RawDocumentBuf| {
        let form = document.get("form").ok().flatten()?.as_i64()?;
        u32::try_from(form).ok().map(TaskForm)
    };
    let newest = found.iter().filter_map(form).max();
    match newest {
        Some(newest) if newest > filter.newest_form => {
            context.newer_forms.record_if_unknown(newest);
            find_first_within(context, limit, filter.capacity, Some(filter.newest_form)).await
        }
        _ => Ok(found),
    }
}

async fn find_first(context: &StoreContext, limit: usize) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    let documents = context
        .tasks()
        .find(doc! { "waits": true })
        .projection(without_result())
        .sort(queue_order())
        .hint(Hint::Name(QUEUE_INDEX.into()))
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
    limit: usize,
    capacity: Option<Capacity>,
    newest_form: Option<TaskForm>,
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
            doc! { "$match": { "waits": true } },
            doc! { "$sort": queue_order() },
            doc! { "$limit": bounded(limit + MAX_SKIPPED_TASKS) },
            doc! { "$match": claimable },
            doc! { "$limit": bounded(limit) },
            doc! { "$project": without_result() },
        ])
        .hint(Hint::Name(QUEUE_INDEX.into()))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    Ok(documents)
}

/// The sort order of the queue: highest priority first, then oldest.
pub(in crate::mongo) fn queue_order() -> Document {
    doc! { "priority": -1, "add_time": 1, "_id": 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_with_the_lowest_wanted_priority_are_skipped() {
        let check = |priorities: &[i32], wanted: usize, max_skipped: usize, most: Range<usize>| {
            let widest = (0..100).map(|random| skipped_range(priorities, wanted, max_skipped, random));
            assert_eq!(widest.max_by_key(|range| range.end), Some(most), "{priorities:?}");
        };
        check(&[], 1, 6, 0..0);
        check(&[0, 0, 0], 0, 6, 0..0);
        check(&[0, 0, 0], 3, 6, 0..0);
        check(&[0, 0, 0], 1, 6, 0..2);
        check(&[0; 20], 1, 6, 0..6);
        check(&[9, 0, 0, 0], 1, 6, 0..0);
        check(&[9, 9, 9, 0, 0, 0], 1, 6, 0..2);
        check(&[9, 9, 0, 0, 0, 0], 3, 6, 2..5);
        check(&[9, 5, 5, 0, 0, 0], 2, 6, 1..2);
        check(&[0, 0], 3, 6, 0..0);
    }
}
