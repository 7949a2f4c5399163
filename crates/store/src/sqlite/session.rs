//! Sessions: the table `executors` has one row for each executor, with its current or last session.

use std::sync::Arc;

use model::{Capacity, ExecutorName, Report, ReportSeq, SessionId, StoredSession, TaskState, UnixTime};
use rusqlite::{OptionalExtension, Row};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows;
use super::sql_value::SqlValue;
use super::store_folder::StoreFolder;
use super::transition::{Release, release};
use crate::tools_cache::DecodedTools;
use crate::{ObservedSession, StoreError};

pub(super) fn find(
    transaction: &GroupTransaction<'_>,
    name: &ExecutorName,
) -> Result<Option<StoredSession>, SqliteFailure> {
    const STEP: &str = "read an executor";
    transaction
        .statement(
            "SELECT name, session, seq, live, host, since FROM executors WHERE name = ?1",
            STEP,
        )?
        .query_row([SqlValue(name)], read_session)
        .optional()
        .map_err(|source| match rows::is_unreadable(&source) {
            // Nothing has been written yet, so the store can refuse this one report. The executor's reports are refused
            // until the leader has expired the row.
            true => {
                transaction
                    .unreadable_rows()
                    .record(format_args!("executor {name}"), &source);
                SqliteFailure::Refused(StoreError::Unreadable {
                    what: "executor",
                    detail: format!("{name}: {source}"),
                })
            }
            false => SqliteFailure::Database { step: STEP, source },
        })
}

/// Reads the columns `session, seq, live, host, since`, which follow the name.
pub(super) fn read_session(row: &Row<'_>) -> rusqlite::Result<StoredSession> {
    Ok(StoredSession {
        session: row.get::<_, SqlValue<SessionId>>(1)?.0,
        seq: row.get::<_, SqlValue<ReportSeq>>(2)?.0,
        live: row.get(3)?,
        host: row.get(4)?,
        since: row.get::<_, SqlValue<UnixTime>>(5)?.0,
    })
}

/// Records the report's number. For a report without changes this is the only write.
pub(super) fn renew(transaction: &GroupTransaction<'_>, report: &Report) -> Result<(), SqliteFailure> {
    const STEP: &str = "renew a session";
    let info = &report.executor_info;
    transaction
        .statement(
            "UPDATE executors SET seq = ?2, report_time = max(report_time, ?3), slots = ?4, host = ?5, version = ?6,
                 memory = ?7, processes = ?8, open_files = ?9,
                 load_hundredths = ?10, cores = ?11, memory_available = ?12, memory_total = ?13, newest_form = ?14
             WHERE name = ?1",
            STEP,
        )?
        .execute((
            SqlValue(&report.executor),
            SqlValue(report.seq),
            SqlValue(transaction.now()),
            info.slots,
            &info.host,
            &info.version,
            info.capacity.map(|capacity| saturating_i64(capacity.memory)),
            info.capacity.map(|capacity| capacity.processes),
            info.capacity.map(|capacity| saturating_i64(capacity.open_files)),
            info.load.map(|load| load.load_hundredths),
            info.load.map(|load| load.cores),
            info.load.map(|load| saturating_i64(load.memory_available)),
            info.load.map(|load| saturating_i64(load.memory_total)),
            info.newest_form.0,
        ))
        .map(drop)
        .during(STEP)
}

/// Whether a live executor that is not drained has more memory for a task than `own`, or has not reported its capacity.
pub(super) fn has_larger_executor(
    transaction: &GroupTransaction<'_>,
    own: Capacity,
) -> Result<bool, SqliteFailure> {
    const STEP: &str = "look for a larger executor";
    transaction
        .statement(
            "SELECT 1 FROM executors WHERE live = 1 AND drain_reason IS NULL AND (memory IS NULL OR memory > ?1)",
            STEP,
        )?
        .exists([saturating_i64(own.memory)])
        .during(STEP)
}

/// The tools of the same executors.
/// Executors with the same tools are one element.
pub(super) fn tools_of_larger_executors(
    transaction: &GroupTransaction<'_>,
    own: Capacity,
) -> Result<Vec<Arc<DecodedTools>>, SqliteFailure> {
    const STEP: &str = "look for a larger executor";
    let mut statement = transaction.statement(
        "SELECT name, tools FROM executors JOIN executor_tools ON executor = name
         WHERE live = 1 AND drain_reason IS NULL AND (memory IS NULL OR memory > ?1)",
        STEP,
    )?;
    let mut rows = statement.query([saturating_i64(own.memory)]).during(STEP)?;
    let mut larger: Vec<Arc<DecodedTools>> = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let tools = read_tools(row, 1, transaction.folder()).during(STEP)?;
        if !larger.iter().any(|known| Arc::ptr_eq(known, &tools)) {
            larger.push(tools);
        }
    }
    Ok(larger)
}

/// The tools that the executor has reported in its session.
pub(super) fn tools(
    transaction: &GroupTransaction<'_>,
    name: &ExecutorName,
) -> Result<Arc<DecodedTools>, SqliteFailure> {
    const STEP: &str = "read an executor's tools";
    transaction
        .statement(
            "SELECT executor, tools FROM executor_tools WHERE executor = ?1",
            STEP,
        )?
        .query_row([SqlValue(name)], |row| read_tools(row, 1, transaction.folder()))
        .optional()
        .map(Option::unwrap_or_default)
        .during(STEP)
}

/// Reads the tools in this column of a row whose first column is the executor's name. Unreadable tools are recorded and
/// read as none: the executor can still run other tasks.
pub(super) fn read_tools(
    row: &Row<'_>,
    column: usize,
    folder: &StoreFolder,
) -> rusqlite::Result<Arc<DecodedTools>> {
    let Some(document) = row.get_ref(column)?.as_blob_or_null()? else {
        return Ok(Arc::default());
    };
    Ok(folder.tools_cache().decode(document).unwrap_or_else(|error| {
        let name = row.get::<_, String>(0).unwrap_or_default();
        folder
            .unreadable_rows()
            .record(format_args!("tools of executor {name}"), error);
        Arc::default()
    }))
}

/// Replaces the tools of the executor, if they differ.
pub(super) fn write_tools(
    transaction: &GroupTransaction<'_>,
    name: &ExecutorName,
    tools: &[u8],
) -> Result<(), SqliteFailure> {
    const STEP: &str = "write an executor's tools";
    transaction
        .statement(
            "INSERT INTO executor_tools (executor, tools) VALUES (?1, ?2)
             ON CONFLICT (executor) DO UPDATE SET tools = excluded.tools WHERE tools <> excluded.tools",
            STEP,
        )?
        .execute((SqlValue(name), tools))
        .map(drop)
        .during(STEP)
}

/// Forgets the tools of the executor's earlier session.
fn delete_tools(transaction: &GroupTransaction<'_>, name: &ExecutorName) -> Result<(), SqliteFailure> {
    const STEP: &str = "delete an executor's tools";
    transaction
        .statement("DELETE FROM executor_tools WHERE executor = ?1", STEP)?
        .execute([SqlValue(name)])
        .map(drop)
        .during(STEP)
}

/// SQLite's integers are signed.
fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn open(transaction: &GroupTransaction<'_>, report: &Report) -> Result<(), SqliteFailure> {
    const STEP: &str = "open a session";
    delete_tools(transaction, &report.executor)?;
    let info = &report.executor_info;
    transaction
        .statement(
            // A drain outlives the session.
            "INSERT INTO executors (name, session, seq, live, slots, host, version, since, report_time,
                                    memory, processes, open_files,
                                    load_hundredths, cores, memory_available, memory_total, newest_form)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (name) DO UPDATE SET
                 session = ?2, seq = ?3, live = 1, slots = ?4, host = ?5, version = ?6, since = ?7, report_time = ?7,
                 memory = ?8, processes = ?9, open_files = ?10, load_hundredths = ?11, cores = ?12,
                 memory_available = ?13, memory_total = ?14, newest_form = ?15, end_age = 0",
            STEP,
        )?
        .execute((
            SqlValue(&report.executor),
            SqlValue(report.session),
            SqlValue(report.seq),
            info.slots,
            &info.host,
            &info.version,
            SqlValue(transaction.now()),
            info.capacity.map(|capacity| saturating_i64(capacity.memory)),
            info.capacity.map(|capacity| capacity.processes),
            info.capacity.map(|capacity| saturating_i64(capacity.open_files)),
            info.load.map(|load| load.load_hundredths),
            info.load.map(|load| load.cores),
            info.load.map(|load| saturating_i64(load.memory_available)),
            info.load.map(|load| saturating_i64(load.memory_total)),
            info.newest_form.0,
        ))
        .map(drop)
        .during(STEP)
}

/// Marks the session as ended. The row stays, so that lists show the executor and late reports of the session are
/// answered with `Ended`.
pub(super) fn end(transaction: &GroupTransaction<'_>, name: &ExecutorName) -> Result<(), SqliteFailure> {
    const STEP: &str = "end a session";
    transaction
        .statement(
            "UPDATE executors SET live = 0, end_age = ?2 WHERE name = ?1",
            STEP,
        )?
        .execute((SqlValue(name), SqlValue(transaction.age())))
        .map(drop)
        .during(STEP)
}

/// Replaces an unreadable row by an ended session.
pub(super) fn end_unreadable(
    transaction: &GroupTransaction<'_>,
    observed: &ObservedSession,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "end an unreadable session";
    delete_tools(transaction, &observed.executor)?;
    transaction
        .statement(
            "INSERT INTO executors (name, session, seq, live, slots, host, version, since, report_time, end_age)
             VALUES (?1, ?2, ?3, 0, 0, '', '', ?4, ?4, ?5)
             ON CONFLICT (name) DO UPDATE SET
                 session = ?2, seq = ?3, live = 0, slots = 0, host = '', version = '', since = ?4, report_time = ?4,
                 end_age = ?5, memory = NULL, processes = NULL, open_files = NULL, load_hundredths = NULL,
                 cores = NULL, memory_available = NULL, memory_total = NULL, newest_form = NULL",
            STEP,
        )?
        .execute((
            SqlValue(&observed.executor),
            SqlValue(observed.session),
            SqlValue(observed.seq),
            SqlValue(transaction.now()),
            SqlValue(transaction.age()),
        ))
        .map(drop)
        .during(STEP)
}

/// Releases all tasks that the executor holds, in any session, and returns them.
pub(super) fn release_held_tasks(
    transaction: &mut GroupTransaction<'_>,
    executor: &ExecutorName,
    why: Release<'_>,
) -> Result<Vec<TaskState>, SqliteFailure> {
    let held = rows::held(transaction.connection(), executor, transaction.unreadable_rows())?;
    for task in &held {
        release(transaction, task, why)?;
    }
    Ok(held)
}
