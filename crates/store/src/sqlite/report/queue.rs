//! Reads the queue for a claim. Tasks that any executor may run are in one queue, and the tasks of each requirement in a
//! queue of their own. A claim merges the first one with those of the requirements that the executor satisfies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Capacity, QueueKeys, Report, TaskForm, TaskState, ToolRequirement};
use rusqlite::{OptionalExtension, Row, Rows};

use crate::MAX_SKIPPED_TASKS;
use crate::sqlite::failure::{SqliteFailure, StepContext};
use crate::sqlite::group_transaction::GroupTransaction;
use crate::sqlite::rows::{read_task_state, skip_unreadable_task, task_state_columns};
use crate::sqlite::session;
use crate::tools_cache::DecodedTools;
use crate::unreadable_rows::UnreadableRows;

/// The queue of the tasks without a requirement. Its partial index has the same order, so that the first tasks are found
/// at once in a queue of any length.
const QUEUED_TASKS: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE executor IS NULL AND finish_time IS NULL AND needs = '' ORDER BY priority DESC, seq"
);

/// A statement that reads one task of the queue of a requirement. The condition `needs <> ''` is that of the partial index.
macro_rules! first_needing {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            task_state_columns!(),
            " FROM tasks WHERE executor IS NULL AND finish_time IS NULL AND needs <> '' AND needs = ?1",
            $condition,
            " ORDER BY priority DESC, seq LIMIT 1"
        )
    };
}

const FIRST_OF_KEY: &str = first_needing!("");
// The two parts of the queue after a task. SQLite would not find the next task by the index if they were one condition.
const NEXT_OF_SAME_PRIORITY: &str = first_needing!(" AND priority = ?2 AND seq > ?3");
const FIRST_OF_LOWER_PRIORITY: &str = first_needing!(" AND priority < ?2");
pub(in crate::sqlite) const NEXT_KEY: &str = "SELECT needs FROM tasks
    WHERE executor IS NULL AND finish_time IS NULL AND needs <> '' AND needs >= ?1 ORDER BY needs LIMIT 1";
const STEP: &str = "read the queue";

/// The first tasks that the executor of the report may claim, in the order of the queue. Tasks beyond the executor's
/// capacity are left to a larger executor, if there is one, and tasks of forms that this program or the executor does not
/// know to newer ones.
pub(super) fn first_claimable(
    transaction: &GroupTransaction<'_>,
    report: &Report,
    wanted: u32,
) -> Result<Vec<TaskState>, SqliteFailure> {
    let newest_form = report.executor_info.newest_form.min(TaskForm::NEWEST);
    let folder = transaction.folder();
    let mut larger = LargerExecutors::new(transaction, report.executor_info.capacity);
    let mut statement = transaction.statement(QUEUED_TASKS, STEP)?;
    let mut queue = MergedQueue {
        transaction,
        without_requirement: statement.query([]).during(STEP)?,
        next_without_requirement: None,
        with_requirement: first_of_each_key(transaction, report)?,
        taken: None,
    };
    let (mut claimable, mut skipped) = (vec![], 0);
    while claimable.len() < wanted as usize
        && skipped < MAX_SKIPPED_TASKS
        && let Some(row) = queue.next()?
    {
        match row.task {
            None => {}
            Some(task) if task.status.is_done() => folder.unreadable_rows().record(
                format_args!("task {}", task.id),
                "the task is in the queue, but its status is terminal",
            ),
            Some(task) if task.form > newest_form => {
                folder.newer_forms().record_if_unknown(task.form);
                skipped += 1;
            }
            Some(task) if larger.should_take(&task)? => skipped += 1,
            Some(task) => claimable.push(task),
        }
    }
    Ok(claimable)
}

/// The place of a task in the queue: higher priorities first, then older tasks.
type QueuePosition = (Reverse<i64>, i64);

/// A row of the SQLite store's queue.
struct QueuedRow {
    position: QueuePosition,
    /// `None` if it is unreadable.
    task: Option<TaskState>,
}

/// The queues from which an executor claims, in one order.
struct MergedQueue<'t, 's> {
    transaction: &'t GroupTransaction<'t>,
    without_requirement: Rows<'s>,
    next_without_requirement: Option<QueuedRow>,
    /// The first rows of the queues of requirements, with their keys.
    with_requirement: BTreeMap<QueuePosition, (String, QueuedRow)>,
    /// The queue from which a row was taken, and its position. The next row of that queue is not read yet.
    taken: Option<(String, QueuePosition)>,
}

impl MergedQueue<'_, '_> {
    fn next(&mut self) -> Result<Option<QueuedRow>, SqliteFailure> {
        if let Some((key, position)) = self.taken.take()
            && let Some(row) = next_of_key(self.transaction, &key, position)?
        {
            self.with_requirement.insert(row.position, (key, row));
        }
        if self.next_without_requirement.is_none()
            && let Some(row) = self.without_requirement.next().during(STEP)?
        {
            let row = QueuedRow::read(row, self.transaction.unreadable_rows()).during(STEP)?;
            self.next_without_requirement = Some(row);
        }
        let first_with_requirement = self.with_requirement.first_key_value();
        let takes_requirement = match (&self.next_without_requirement, first_with_requirement) {
            (Some(row), Some((position, _))) => *position < row.position,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !takes_requirement {
            return Ok(self.next_without_requirement.take());
        }
        let Some((position, (key, row))) = self.with_requirement.pop_first() else {
            return Ok(None);
        };
        self.taken = Some((key, position));
        Ok(Some(row))
    }
}

impl QueuedRow {
    fn read(row: &Row<'_>, unreadable_rows: &UnreadableRows) -> rusqlite::Result<QueuedRow> {
        Ok(QueuedRow {
            position: (Reverse(row.get(10)?), row.get(0)?),
            task: skip_unreadable_task(row, read_task_state(row), unreadable_rows)?,
        })
    }
}

/// The first row of each queue from which the executor may claim, besides that without a requirement.
fn first_of_each_key(
    transaction: &GroupTransaction<'_>,
    report: &Report,
) -> Result<BTreeMap<QueuePosition, (String, QueuedRow)>, SqliteFailure> {
    let mut first_rows = BTreeMap::new();
    // In most stores no task waits for tools, so the executor's own are not even read.
    if next_key(transaction, "")?.is_none() {
        return Ok(first_rows);
    }
    let tools = session::tools(transaction, &report.executor)?;
    let keys = common_keys(&tools.queue_keys, |key| next_key(transaction, key))?;
    for key in keys {
        let row = transaction
            .statement(FIRST_OF_KEY, STEP)?
            .query_row([&key], |row| QueuedRow::read(row, transaction.unreadable_rows()))
            .optional()
            .during(STEP)?;
        if let Some(row) = row {
            first_rows.insert(row.position, (key, row));
        }
    }
    Ok(first_rows)
}

fn next_of_key(
    transaction: &GroupTransaction<'_>,
    key: &str,
    (Reverse(priority), seq): QueuePosition,
) -> Result<Option<QueuedRow>, SqliteFailure> {
    let read = |row: &Row<'_>| QueuedRow::read(row, transaction.unreadable_rows());
    let same_priority = transaction
        .statement(NEXT_OF_SAME_PRIORITY, STEP)?
        .query_row((key, priority, seq), read)
        .optional()
        .during(STEP)?;
    match same_priority {
        Some(row) => Ok(Some(row)),
        None => transaction
            .statement(FIRST_OF_LOWER_PRIORITY, STEP)?
            .query_row((key, priority), read)
            .optional()
            .during(STEP),
    }
}

/// The first key in the queue that is not less than this one.
fn next_key(transaction: &GroupTransaction<'_>, key: &str) -> Result<Option<String>, SqliteFailure> {
    transaction
        .statement(NEXT_KEY, STEP)?
        .query_row([key], |row| row.get(0))
        .optional()
        .during(STEP)
}

/// The keys that are both in `own` and in the queue. `seek` returns the first key of the queue that is not less than its
/// argument. Each side skips what the other one does not have, so the number of seeks is bounded by the shorter one, whether
/// the executor has many languages or users wait for many roots.
pub(in crate::sqlite) fn common_keys<E>(
    own: &QueueKeys,
    mut seek: impl FnMut(&str) -> Result<Option<String>, E>,
) -> Result<Vec<String>, E> {
    let (mut common, mut next) = (vec![], own.first_from(""));
    while let Some(key) = next {
        let Some(queued) = seek(&key)? else { break };
        next = own.first_from(&queued);
        if next.as_ref() == Some(&queued) {
            next = own.first_after(&queued);
            common.push(queued);
        }
    }
    Ok(common)
}

/// The live executors that are larger than the one that claims. They are read when a task does not fit.
struct LargerExecutors<'t> {
    transaction: &'t GroupTransaction<'t>,
    /// The capacity of the executor that claims. `None` if it takes tasks of any size.
    own: Option<Capacity>,
    /// Whether there is one for tasks with this requirement.
    found: HashMap<ToolRequirement, bool>,
    tools: Option<Vec<Arc<DecodedTools>>>,
}

impl<'t> LargerExecutors<'t> {
    fn new(transaction: &'t GroupTransaction<'t>, own: Option<Capacity>) -> LargerExecutors<'t> {
        LargerExecutors {
            transaction,
            own,
            found: HashMap::new(),
            tools: None,
        }
    }

    /// Whether the task does not fit, and a larger executor has the tools for it.
    fn should_take(&mut self, task: &TaskState) -> Result<bool, SqliteFailure> {
        let Some(own) = self.own else {
            return Ok(false);
        };
        if own.claim_limit().fits(task.resources) {
            return Ok(false);
        }
        if let Some(found) = self.found.get(&task.requires) {
            return Ok(*found);
        }
        let found = match task.requires.is_none() {
            true => session::has_larger_executor(self.transaction, own)?,
            false => {
                let tools = match self.tools.take() {
                    Some(tools) => tools,
                    None => session::tools_of_larger_executors(self.transaction, own)?,
                };
                let tools = self.tools.insert(tools);
                tools.iter().any(|tools| tools.satisfy(&task.requires))
            }
        };
        self.found.insert(task.requires.clone(), found);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use model::{ExecutorTools, OfferedRoot, RootName};

    use super::*;
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn queues_are_read_in_the_order_of_their_indexes() {
        let connection = database();
        let check = |sql: &str, expected: &str| assert_eq!(query_plan(&connection, sql), expected);
        check(QUEUED_TASKS, "SCAN tasks USING INDEX tasks_waiting");
        let search = |found: &str| format!("SEARCH tasks USING INDEX tasks_waiting_for_tools ({found})");
        check(FIRST_OF_KEY, &search("needs=?"));
        check(
            NEXT_OF_SAME_PRIORITY,
            &search("needs=? AND priority=? AND rowid>?"),
        );
        check(FIRST_OF_LOWER_PRIORITY, &search("needs=? AND priority<?"));
        check(NEXT_KEY, &search("needs>?"));
    }

    #[test]
    fn common_keys_need_as_many_seeks_as_the_shorter_list_has_keys() {
        let check = |own: &[&str], queued: &[&str], expected: &[&str], max_seeks: usize| {
            let mut seeks = 0;
            let root = |name: &&str| OfferedRoot {
                name: RootName::new(*name).unwrap(),
                sha256: None,
            };
            let own = ExecutorTools::new(vec![], own.iter().map(root).collect()).queue_keys();
            let found = common_keys(&own, |key| {
                seeks += 1;
                let found = queued.iter().find(|queued| **queued >= key);
                Ok::<_, ()>(found.map(|key| key.to_string()))
            });
            assert_eq!(found.unwrap(), expected);
            assert!(seeks <= max_seeks, "{own:?} {queued:?}: {seeks} seeks");
        };
        check(&[], &["a/"], &[], 0);
        check(&["a"], &[], &[], 1);
        // The first seek looks for pairs.
        check(&["b"], &["a/", "b/", "c/"], &["b/"], 2);
        check(&["a", "b", "c", "d"], &["c/"], &["c/"], 2);
        check(&["a", "c", "e"], &["b/", "c/", "d/"], &["c/"], 4);
        check(&["a", "b", "c"], &["a/", "b/", "c/"], &["a/", "b/", "c/"], 4);
        let many: Vec<_> = (0..1000).map(|number| format!("x{number:04}/")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        check(&["x0500", "z"], &many, &["x0500/"], 3);
        let own: Vec<_> = (0..200).map(|number| format!("x{number:04}")).collect();
        let own: Vec<_> = own.iter().map(String::as_str).collect();
        check(&own, &["x0100/", "z/"], &["x0100/"], 3);
        // These tools make 40,200 pairs.
        let pairs = [
            "+/ x0007/",
            "+/nobody x0001/",
            "+x0002/ x0140/",
            "+x0002/ y/",
            "x0150/",
        ];
        check(&own, &pairs, &["+/ x0007/", "+x0002/ x0140/", "x0150/"], 8);
    }
}
