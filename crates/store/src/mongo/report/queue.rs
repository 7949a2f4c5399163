//! The head of the queue, and who is reaching for it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use model::{Capacity, Intent, Report, TaskId};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::MOST_PASSED_OVER;
use crate::mongo::attempts::{COMMAND, Try, random};
use crate::mongo::base::Base;
use crate::mongo::failure::Failure;
use crate::mongo::field::task_id;
use crate::mongo::row::{Position, Row, readable, without_result};
use crate::mongo::schema::WAITING;
use crate::mongo::session;

/// An answer is one message: it must not outgrow what a message may hold or an executor can take in at once.
/// What does not fit is claimed by the next report.
const ANSWER_TASKS: u32 = 1000;
/// After so many attempts that others overtook, the report goes without new work: the next one gets it.
const ENOUGH: Try = Try(6);
const FIRST: Try = Try(0);
/// How long a turn is waited for.
const TURN: Duration = Duration::from_secs(1);
/// How far back, in multiples of what is wanted, an attempt may begin when others reach for the head too.
const WIDEST: usize = 6;

/// Tasks that reports under way here are about to claim. Two of one process never reach for the same.
#[derive(Debug, Default)]
pub(in crate::mongo) struct Reservations {
    /// Whoever looks at the queue does so alone: then he sees what those before him have reserved.
    turn: tokio::sync::Mutex<()>,
    /// With their priorities.
    tasks: Mutex<HashMap<TaskId, i32>>,
    /// Told whenever reservations end.
    ended: Notify,
    /// How far back to begin: more after each meeting with another process, less as time goes by without one.
    spread: AtomicUsize,
    /// How many documents at the head could not be read the last time.
    unreadable: AtomicUsize,
}

/// From the head of the queue, for as long as this is kept.
pub(super) struct Head<'r> {
    pub(super) rows: Vec<Row>,
    /// Others wait that this report may not take now. Whatever it gives back may be behind them in the queue.
    pub(super) withheld: bool,
    /// What the tasks have to be within, if they have to.
    pub(super) capacity: Option<Capacity>,
    all: &'r Reservations,
}

impl Reservations {
    fn count(&self) -> usize {
        self.lock().len()
    }

    /// An attempt that is not the first is one that was overtaken.
    fn spread(&self, count: Try) -> usize {
        let spread = self.spread.load(Ordering::Relaxed);
        let next = match count {
            Try(0) if random().is_multiple_of(8) => spread.saturating_sub(1),
            Try(0) => spread,
            Try(_) => (spread + 2).min(WIDEST),
        };
        self.spread.store(next, Ordering::Relaxed);
        next
    }

    /// `wanted` of those that are free, or as many as there are, but none that would overtake a task of a higher
    /// priority: one that another report has reserved, and may yet have to give up. `None` if only such are free.
    fn reserve(&self, rows: Vec<Row>, wanted: usize, wider: usize) -> Option<Head<'_>> {
        let mut reserved = self.lock();
        let mut free = rows;
        free.retain(|row| !reserved.contains_key(&task_id(row.id)));
        let priorities: Vec<_> = free.iter().map(|row| row.priority).collect();
        free.drain(skipped(&priorities, wanted, wider, random()));
        free.truncate(wanted);
        let found = free.len();
        if let Some(highest) = reserved.values().max().copied() {
            free.retain(|row| row.priority >= highest);
            if free.is_empty() && found > 0 {
                return None;
            }
        }
        let withheld = free.len() < found;
        reserved.extend(free.iter().map(|row| (task_id(row.id), row.priority)));
        Some(Head {
            rows: free,
            withheld,
            capacity: None,
            all: self,
        })
    }

    pub(super) fn nothing(&self) -> Head<'_> {
        Head {
            rows: vec![],
            withheld: true,
            capacity: None,
            all: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, i32>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Head<'_> {
    fn drop(&mut self) {
        let mut reserved = self.all.lock();
        for row in &self.rows {
            reserved.remove(&task_id(row.id));
        }
        drop(reserved);
        self.all.ended.notify_waiters();
    }
}

/// Which of the first in the queue are left to other processes that reach for them now. A higher priority always goes
/// first, so only tasks of the lowest priority among the `wanted` are passed over, in favour of others of the same
/// priority, and no more of them than `wider`.
fn skipped(priorities: &[i32], wanted: usize, wider: usize, random: u64) -> Range<usize> {
    let Some(lowest) = wanted.checked_sub(1).and_then(|last| priorities.get(last)) else {
        return 0..0;
    };
    let higher = priorities
        .iter()
        .take_while(|priority| *priority > lowest)
        .count();
    let alike = priorities[higher..]
        .iter()
        .take_while(|priority| *priority == lowest)
        .count();
    let spare = (higher + alike - wanted).min(wider);
    higher..higher + random as usize % (spare + 1)
}

pub(super) fn wanted(report: &Report) -> usize {
    report.vacant.min(ANSWER_TASKS) as usize
}

/// As many from the queue as the report has room for, in its order. If reports of other processes are reaching for
/// the same ones, it takes others of the same priority, somewhat further back.
pub(super) async fn head<'b>(base: &'b Base, report: &Report, count: Try) -> Result<Head<'b>, Failure> {
    let wanted = wanted(report);
    if wanted == 0 || report.intent == Intent::Leave || count >= ENOUGH {
        return Ok(base.reserved.nothing());
    }
    let capacity = match report.presence.capacity {
        Some(own) if session::has_larger(base, own).await? => Some(own.claims()),
        _ => None,
    };
    let wider = wanted * base.reserved.spread(count);
    let deadline = Instant::now() + TURN;
    loop {
        // If the one whose turn it is hears nothing, the others can still report.
        let Ok(turn) = timeout_at(deadline, base.reserved.turn.lock()).await else {
            return Ok(base.reserved.nothing());
        };
        let ended = base.reserved.ended.notified();
        let reserved = base.reserved.count();
        let rows = read_past_unreadable(base, wanted + reserved + wider, capacity).await?;
        if let Some(mut head) = base.reserved.reserve(rows, wanted, wider) {
            head.capacity = capacity;
            return Ok(head);
        }
        drop(turn);
        // A report is a heartbeat too: it waits for a turn once, not at each try.
        if count > FIRST || timeout_at(deadline, ended).await.is_err() {
            return Ok(base.reserved.nothing());
        }
    }
}

/// Documents that cannot be read, and those that do not wait, stay at the head. So as many more have to be read.
async fn read_past_unreadable(
    base: &Base,
    limit: usize,
    capacity: Option<Capacity>,
) -> Result<Vec<Row>, Failure> {
    loop {
        let expected = base.reserved.unreadable.load(Ordering::Relaxed);
        let found = match capacity {
            Some(capacity) => read_within(base, limit + expected, capacity).await?,
            None => read(base, limit + expected).await?,
        };
        let count = found.len();
        let rows: Vec<_> = readable(base, found)
            .into_iter()
            .filter(|row| waits(base, row))
            .collect();
        let unreadable = count - rows.len();
        base.reserved.unreadable.store(unreadable, Ordering::Relaxed);
        if unreadable <= expected || count < limit + expected {
            return Ok(rows);
        }
    }
}

/// A claim would not take one that is done or held, and it must not take the place of one that waits.
fn waits(base: &Base, row: &Row) -> bool {
    let waits = Position::try_from(row).is_ok_and(|task| task.waits());
    if !waits {
        let problem = "it is in the queue, but it is done or has an executor";
        base.set_aside
            .note(format_args!("task {}", task_id(row.id)), problem);
    }
    waits
}

async fn read(base: &Base, limit: usize) -> Result<Vec<RawDocumentBuf>, Failure> {
    let rows = base
        .tasks()
        .find(doc! { "waits": true })
        .projection(without_result())
        .sort(order())
        .hint(Hint::Name(WAITING.into()))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(rows)
}

/// The same for tasks within a capacity. So many others are passed over at most.
async fn read_within(base: &Base, limit: usize, capacity: Capacity) -> Result<Vec<RawDocumentBuf>, Failure> {
    let bounded = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let memory = i64::try_from(capacity.memory).unwrap_or(i64::MAX);
    let rows = base
        .tasks()
        .aggregate([
            doc! { "$match": { "waits": true } },
            doc! { "$sort": order() },
            doc! { "$limit": bounded(limit + MOST_PASSED_OVER) },
            // Absent is not greater.
            doc! { "$match": {
                "need_memory": { "$not": { "$gt": memory } },
                "need_processes": { "$not": { "$gt": i64::from(capacity.processes) } },
            } },
            doc! { "$limit": bounded(limit) },
            doc! { "$project": without_result() },
        ])
        .hint(Hint::Name(WAITING.into()))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    Ok(rows)
}

/// Highest priority first, then oldest.
pub(in crate::mongo) fn order() -> Document {
    doc! { "priority": -1, "add_time": 1, "_id": 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_of_one_priority_are_passed_over() {
        let check = |priorities: &[i32], wanted: usize, wider: usize, most: Range<usize>| {
            let widest = (0..100).map(|random| skipped(priorities, wanted, wider, random));
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
