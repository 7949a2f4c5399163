//! The table `ledger`: counters that transactions keep up to date, so that nothing has to be counted.

use model::{StatusCounts, TaskStatus};
use rusqlite::Connection;

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use crate::{StoreError, TaskTotals};

pub(super) fn totals(connection: &Connection) -> Result<TaskTotals, SqliteFailure> {
    const STEP: &str = "read the ledger";
    let mut statement = connection
        .prepare_cached("SELECT name, value FROM ledger")
        .during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let mut totals = TaskTotals {
        counts: StatusCounts::new(),
        held: 0,
    };
    while let Some(row) = rows.next().during(STEP)? {
        let name: String = row.get(0).during(STEP)?;
        let value: i64 = row.get(1).during(STEP)?;
        let value = u64::try_from(value).unwrap_or(0);
        match name.parse::<TaskStatus>() {
            Ok(status) => drop(totals.counts.insert(status, value)),
            Err(_) if name == "held" => totals.held = value,
            Err(_) => {}
        }
    }
    Ok(totals)
}

pub(super) fn value(connection: &Connection, name: &str) -> Result<i64, SqliteFailure> {
    connection
        .query_row("SELECT value FROM ledger WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .during("read the ledger")
}

/// Writes a health check: increments the counter `checks` and returns its new value.
pub(super) fn write_check(transaction: &GroupTransaction<'_>) -> Result<i64, SqliteFailure> {
    const STEP: &str = "write a health check";
    let count = "INSERT INTO ledger VALUES ('checks', 1)
                 ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value";
    transaction
        .statement(count, STEP)?
        .query_row([], |row| row.get(0))
        .during(STEP)
}

/// Reads the health check back.
pub(super) fn read_check(connection: &Connection, written: i64) -> Result<(), SqliteFailure> {
    let found: i64 = connection
        .prepare_cached("SELECT value FROM ledger WHERE name = 'checks'")
        .and_then(|mut count| count.query_row([], |row| row.get(0)))
        .during("read a health check")?;
    // A concurrent check may have incremented the counter again.
    if found >= written {
        return Ok(());
    }
    Err(SqliteFailure::Storage(StoreError::Unreadable {
        what: "health check",
        detail: format!("{written} was written, but {found} was read"),
    }))
}
