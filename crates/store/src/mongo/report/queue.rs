//! Reserves tasks at the head of the queue among the concurrent reports of this process.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::try_join;
use model::{Report, ReportIntent, TaskId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::claim_scope::ClaimScope;
use super::read_keys;
use super::read_queue::{self, UnclaimableCounts};
use crate::MAX_ANSWER_TASKS;
use crate::mongo::bson_values::task_id;
use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::{RetryCount, random_u64};
use crate::mongo::task_document::TaskDocument;
use crate::tools_cache::DecodedTools;

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
    tasks: Mutex<HashMap<TaskId, ReservedTask>>,
    /// Notified when reservations are released.
    released: Notify,
    /// How far claims skip at the head of the queue: it grows with each conflict with another judicator, and shrinks
    /// without conflicts.
    spread: AtomicUsize,
    pub(super) unclaimable: UnclaimableCounts,
}

/// A queued MongoDB task that a report in progress is about to claim.
#[derive(Debug)]
struct ReservedTask {
    priority: i32,
    /// The queue key of its requirement.
    needs: Option<String>,
}

/// Tasks from the head of the MongoDB store's queue, reserved for one report until this is dropped.
pub(super) struct QueueHead<'r> {
    pub(super) tasks: Vec<TaskDocument>,
    /// Whether `tasks` may lack tasks of the queue that this report must not claim now. Tasks that the report gives
    /// back may be behind those in the queue.
    pub(super) tasks_withheld: bool,
    /// Which tasks the report may claim, of `tasks` and of the tasks that it gives back.
    pub(super) scope: ClaimScope,
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

    /// Reserves up to `wanted` free tasks. Leaves out tasks with a lower priority than a reserved task that the executor
    /// might claim too, because the report that reserved it may fail to claim it. Returns `None` if all free tasks are left
    /// out for that reason.
    fn reserve(
        &self,
        scope: &ClaimScope,
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
        let within_scope = reserved
            .values()
            .filter(|task| scope.has_tools_for(task.needs.as_deref()));
        if let Some(highest) = within_scope.map(|task| task.priority).max() {
            free.retain(|document| document.priority >= highest);
            if free.is_empty() && found > 0 {
                return None;
            }
        }
        let tasks_withheld = free.len() < found;
        reserved.extend(free.iter().map(|document| {
            let task = ReservedTask {
                priority: document.priority,
                needs: document.needs.clone(),
            };
            (task_id(document.id), task)
        }));
        Some(QueueHead {
            tasks: free,
            tasks_withheld,
            scope: scope.clone(),
            reservations: self,
        })
    }

    pub(super) fn empty_head(&self, scope: ClaimScope) -> QueueHead<'_> {
        QueueHead {
            tasks: vec![],
            tasks_withheld: true,
            scope,
            reservations: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, ReservedTask>> {
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

/// Reserves as many tasks as are wanted, in the order of the queue. While there are conflicts with other
/// judicators, it skips some tasks in favour of others with the same priority.
pub(super) async fn reserve<'b>(
    context: &'b StoreContext,
    report: &Report,
    wanted: usize,
    tools: Arc<DecodedTools>,
    retries: RetryCount,
) -> Result<QueueHead<'b>, MongoFailure> {
    let scope = ClaimScope::new(report, tools);
    if wanted == 0 || report.intent == ReportIntent::Leave || retries >= MAX_CONTENDED_RETRIES {
        return Ok(context.reservations.empty_head(scope));
    }
    // Read before this report has its turn, which others wait for. A task that is queued later causes another report.
    let own_keys = scope.tools.clone();
    let keys = async {
        match own_keys.queue_keys.is_empty() {
            true => Ok(vec![]),
            false => read_keys::claimable(context, &own_keys.queue_keys).await,
        }
    };
    let (scope, keys) = try_join!(scope.with_larger_executors(context), keys)?;
    let max_skipped = wanted * context.reservations.spread(retries);
    let deadline = Instant::now() + TURN_TIMEOUT;
    loop {
        // If the server does not reply to the report whose turn it is, the others continue without a claim.
        let Ok(turn) = timeout_at(deadline, context.reservations.turn.lock()).await else {
            return Ok(context.reservations.empty_head(scope));
        };
        let released = context.reservations.released.notified();
        let limit = wanted + context.reservations.count() + max_skipped;
        let documents = read_queue::first_tasks(context, limit, &scope, &keys).await?;
        let reserved = context
            .reservations
            .reserve(&scope, documents, wanted, max_skipped);
        if let Some(head) = reserved {
            return Ok(head);
        }
        drop(turn);
        // A report is also a heartbeat, so it waits only in its first try.
        if retries > FIRST_TRY || timeout_at(deadline, released).await.is_err() {
            return Ok(context.reservations.empty_head(scope));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{ExecutorTools, LanguageName, OfferedLanguage};
    use mongodb::bson::{deserialize_from_document, doc};

    use super::*;
    use crate::mongo::bson_values::uuid;

    fn queued(priority: i32, needs: Option<&str>) -> TaskDocument {
        deserialize_from_document(doc! {
            "_id": uuid(uuid::Uuid::now_v7()),
            "user": "ada",
            "priority": priority,
            "add_time": 1_i64,
            "command": "true",
            "status": "pending",
            "needs": needs,
            "attempt": 0_i64,
            "lost": 0_i64,
            "given": 0_i64,
            "spec": { "size": 0_i64 },
        })
        .unwrap()
    }

    /// A report that is about to claim a task with a high priority may fail, so other tasks wait, unless the executor could
    /// not run that one.
    #[test]
    fn a_reserved_task_withholds_others_from_executors_that_could_run_it() {
        for (reserved, expected) in [(None, None), (Some("/c"), None), (Some("/go"), Some(1))] {
            let reservations = ClaimReservations::default();
            let scope = |language: &str| {
                let offered = OfferedLanguage {
                    root: None,
                    name: LanguageName::new(language).unwrap(),
                    version: None,
                };
                let tools = ExecutorTools::new(vec![offered], vec![]);
                ClaimScope::for_test(DecodedTools::from(Arc::new(tools)))
            };
            let first = reservations.reserve(&scope("go"), vec![queued(9, reserved)], 1, 0);
            assert_eq!(first.as_ref().map(|head| head.tasks.len()), Some(1));
            let second = reservations.reserve(&scope("c"), vec![queued(0, None)], 1, 0);
            assert_eq!(
                second.as_ref().map(|head| head.tasks.len()),
                expected,
                "{reserved:?}"
            );
        }
    }

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
