//! Drains and resumes executors. The row of a drained executor stays until it is resumed.

use model::{DrainReason, ExecutorDrain, ExecutorName, UserName};
use rusqlite::{OptionalExtension, Row};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows::read_optional;
use super::sql_value::SqlValue;

/// The columns that `read` reads.
macro_rules! drain_columns {
    () => {
        "drain_reason, drained_by, drain_time"
    };
}
pub(super) use drain_columns;

/// Reads the drain from a row, whose column `first` is the first one of `drain_columns`.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<ExecutorDrain>> {
    let Some(reason) = row.get::<_, Option<String>>(first)? else {
        return Ok(None);
    };
    let by = row.get::<_, Option<String>>(first + 1)?;
    Ok(Some(ExecutorDrain {
        reason: DrainReason::recorded(&reason),
        by: by.and_then(|name| UserName::new(name).ok()),
        since: read_optional(row, first + 2)?.unwrap_or_default(),
    }))
}

/// The drain of an executor, as a report of the executor reads it.
pub(super) fn find(
    transaction: &GroupTransaction<'_>,
    executor: &ExecutorName,
) -> Result<Option<ExecutorDrain>, SqliteFailure> {
    const STEP: &str = "read an executor's drain";
    transaction
        .statement(
            concat!("SELECT ", drain_columns!(), " FROM executors WHERE name = ?1"),
            STEP,
        )?
        .query_row([SqlValue(executor)], |row| read(row, 0))
        .optional()
        .map(Option::flatten)
        .during(STEP)
}

/// Returns whether the executor exists. A drain that is replaced began when the first one did.
pub(super) fn set(
    transaction: &mut GroupTransaction<'_>,
    executor: &ExecutorName,
    drain: Option<&ExecutorDrain>,
) -> Result<bool, SqliteFailure> {
    const STEP: &str = "drain or resume an executor";
    let changed = match drain {
        Some(drain) => transaction
            .statement(
                "UPDATE executors SET drain_reason = ?2, drained_by = ?3, drain_time = coalesce(drain_time, ?4)
                 WHERE name = ?1",
                STEP,
            )?
            .execute((
                SqlValue(executor),
                drain.reason.as_str(),
                drain.by.as_ref().map(UserName::as_str),
                SqlValue(drain.since),
            )),
        None => transaction
            .statement(
                "UPDATE executors SET drain_reason = NULL, drained_by = NULL, drain_time = NULL WHERE name = ?1",
                STEP,
            )?
            .execute([SqlValue(executor)]),
    };
    let exists = changed.during(STEP)? > 0;
    if exists {
        transaction.record_drain_changed(executor);
    }
    Ok(exists)
}
