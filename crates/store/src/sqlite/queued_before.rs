//! Counts the tasks that a claim takes before a queued one.

use std::collections::BTreeSet;

use model::{QueuePlace, QueuedBefore};
use rusqlite::{Connection, OptionalExtension};

use super::failure::{SqliteFailure, StepContext};
use super::report::{NEXT_KEY, common_keys};

const STEP: &str = "count the queued tasks";

/// Counts the tasks of a part of the queue, up to a limit. The conditions on `needs` are those of the partial indexes.
macro_rules! count {
    ($needs:literal, $before:literal) => {
        concat!(
            "SELECT count(*) FROM (SELECT 1 FROM tasks WHERE executor IS NULL AND finish_time IS NULL AND ",
            $needs,
            " AND ",
            $before,
            " LIMIT ?1)"
        )
    };
}

// Two counts each: SQLite would not read the index in two ranges if they were one condition.
const HIGHER: &str = count!("needs = ''", "priority > ?2");
const OLDER: &str = count!("needs = ''", "priority = ?2 AND seq < ?3");
const HIGHER_OF_KEY: &str = count!("needs <> '' AND needs = ?3", "priority > ?2");
const OLDER_OF_KEY: &str = count!("needs <> '' AND needs = ?4", "priority = ?2 AND seq < ?3");

pub(super) fn queued_before(
    connection: &mut Connection,
    place: &QueuePlace,
) -> Result<QueuedBefore, SqliteFailure> {
    // One snapshot, so that no task counts twice.
    let transaction = connection.transaction().during(STEP)?;
    // The add time of a task is its `seq`.
    let (priority, seq) = (place.priority, place.add_time.0);
    let mut left = i64::from(QueuedBefore::MAX) + 1;
    let mut found = 0;
    let mut add = |count: i64| {
        found += count.unsigned_abs();
        left -= count;
        left
    };
    let count = |sql: &str, parameters: &[&dyn rusqlite::ToSql]| -> Result<i64, SqliteFailure> {
        let mut statement = transaction.prepare_cached(sql).during(STEP)?;
        statement.query_row(parameters, |row| row.get(0)).during(STEP)
    };
    let limit = add(0);
    let limit = add(count(HIGHER, &[&limit, &priority])?);
    let mut limit = add(count(OLDER, &[&limit, &priority, &seq])?);
    let next_key = |key: &str| -> Result<Option<String>, SqliteFailure> {
        let mut statement = transaction.prepare_cached(NEXT_KEY).during(STEP)?;
        statement
            .query_row([key], |row| row.get(0))
            .optional()
            .during(STEP)
    };
    // Executors with different tools may claim the same tasks.
    let mut keys: BTreeSet<_> = place.requires.queue_key().into_iter().collect();
    for tools in &place.tools {
        keys.extend(common_keys(&tools.queue_keys(), next_key)?);
    }
    for key in keys {
        limit = add(count(HIGHER_OF_KEY, &[&limit, &priority, &key])?);
        limit = add(count(OLDER_OF_KEY, &[&limit, &priority, &seq, &key])?);
        if limit == 0 {
            break;
        }
    }
    Ok(QueuedBefore::counted(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::tests::{database, query_plan};

    #[test]
    fn the_queue_is_counted_by_its_indexes() {
        let connection = database();
        let check = |sql: &str, expected: &str| {
            let plan = query_plan(&connection, sql);
            assert!(plan.contains(expected), "{plan}");
        };
        check(HIGHER, "USING INDEX tasks_waiting (priority>?)");
        check(OLDER, "USING INDEX tasks_waiting (priority=? AND rowid<?)");
        check(
            HIGHER_OF_KEY,
            "USING INDEX tasks_waiting_for_tools (needs=? AND priority>?)",
        );
        check(
            OLDER_OF_KEY,
            "USING INDEX tasks_waiting_for_tools (needs=? AND priority=? AND rowid<?)",
        );
    }
}
