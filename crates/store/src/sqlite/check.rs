//! A small row that is written and read back, to see whether the store works.

use rusqlite::Connection;

use super::failure::{During, Failure};
use super::group::Group;
use crate::StoreError;

const STEP: &str = "check that it can be written";

/// Counts the checks in the ledger, where the sums of the tasks are. Answers the new count.
pub(super) fn write(group: &Group<'_>) -> Result<i64, Failure> {
    let count = "INSERT INTO ledger VALUES ('checks', 1)
                 ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value";
    group
        .statement(count, STEP)?
        .query_row([], |row| row.get(0))
        .during(STEP)
}

pub(super) fn read(connection: &Connection, written: i64) -> Result<(), Failure> {
    let found: i64 = connection
        .prepare_cached("SELECT value FROM ledger WHERE name = 'checks'")
        .and_then(|mut count| count.query_row([], |row| row.get(0)))
        .during("read what was written")?;
    // Another check may have been written since.
    if found >= written {
        return Ok(());
    }
    Err(Failure::Storage(StoreError::Unreadable {
        what: "check",
        detail: format!("{written} was written, {found} is read"),
    }))
}
