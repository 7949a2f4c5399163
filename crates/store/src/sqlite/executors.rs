//! Lists executors and sessions, expires sessions, and removes executors that are long gone.

use model::{
    Capacity, ExecutorName, ExecutorState, Health, MachineLoad, SessionId, StoreAge, StoredSession, TaskForm,
    UnixTime,
};
use rusqlite::{Connection, Row};

use super::drain::{self, drain_columns};
use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows::skip_unreadable_executor;
use super::session;
use super::sql_value::SqlValue;
use super::store_folder::StoreFolder;
use super::transition::Release;
use crate::unreadable_rows::UnreadableRows;
use crate::{ObservedSession, StoreError};

pub(super) fn executors(
    connection: &Connection,
    folder: &StoreFolder,
) -> Result<Vec<ExecutorState>, SqliteFailure> {
    const STEP: &str = "list the executors";
    let mut statement = connection
        .prepare_cached(concat!(
            "SELECT name, session, live, slots, host, version, since, report_time,
                    (SELECT count(*) FROM tasks WHERE tasks.executor = executors.name),
                    memory, processes, open_files, tools,
                    load_hundredths, cores, memory_available, memory_total, ",
            drain_columns!(),
            " FROM executors LEFT JOIN executor_tools ON executor_tools.executor = name ORDER BY name",
        ))
        .during(STEP)?;
    let read = |row: &Row<'_>| {
        let live: bool = row.get(2)?;
        Ok(ExecutorState {
            name: row.get::<_, SqlValue<ExecutorName>>(0)?.0,
            session: row.get::<_, SqlValue<SessionId>>(1)?.0,
            health: if live { Health::Alive } else { Health::Gone },
            slots: row.get(3)?,
            host: row.get(4)?,
            version: row.get(5)?,
            since: row.get::<_, SqlValue<UnixTime>>(6)?.0,
            report_time: row.get::<_, SqlValue<UnixTime>>(7)?.0,
            tasks: row.get(8)?,
            capacity: to_capacity(row.get(9)?, row.get(10)?, row.get(11)?),
            tools: session::read_tools(row, 12, folder)?.tools.clone(),
            load: to_load([row.get(13)?, row.get(14)?, row.get(15)?, row.get(16)?]),
            drain: drain::read(row, 17)?,
        })
    };
    let mut rows = statement.query([]).during(STEP)?;
    let mut executors = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let read = read(row);
        executors.extend(skip_unreadable_executor(row, read, folder.unreadable_rows()).during(STEP)?);
    }
    Ok(executors)
}

/// `None` if no executor is live, or if one has not reported its form since the store has this column.
pub(super) fn newest_form(connection: &Connection) -> Result<Option<TaskForm>, SqliteFailure> {
    const STEP: &str = "look for the newest form of the executors";
    let (newest, unknown): (Option<u32>, u32) = connection
        .prepare_cached(
            "SELECT max(newest_form), count(*) - count(newest_form) FROM executors WHERE live = 1",
        )
        .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
        .during(STEP)?;
    Ok(newest.filter(|_| unknown == 0).map(TaskForm))
}

/// `None` for an executor of an older version, which does not report its capacity.
fn to_capacity(memory: Option<i64>, processes: Option<u32>, open_files: Option<i64>) -> Option<Capacity> {
    Some(Capacity {
        memory: u64::try_from(memory?).ok()?,
        processes: processes?,
        open_files: u64::try_from(open_files?).ok()?,
    })
}

/// `None` for an executor that does not report the load of its machine.
fn to_load(columns: [Option<i64>; 4]) -> Option<MachineLoad> {
    let [load_hundredths, cores, memory_available, memory_total] = columns;
    Some(MachineLoad {
        load_hundredths: u32::try_from(load_hundredths?).ok()?,
        cores: u32::try_from(cores?).ok()?,
        memory_available: u64::try_from(memory_available?).ok()?,
        memory_total: u64::try_from(memory_total?).ok()?,
    })
}

pub(super) fn live_sessions(
    connection: &Connection,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<ObservedSession>, SqliteFailure> {
    const STEP: &str = "list the live sessions";
    let mut statement = connection
        .prepare_cached("SELECT name, session, seq, live, host, since FROM executors ORDER BY name")
        .during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let mut sessions = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let name = row.get::<_, SqlValue<ExecutorName>>(0);
        let Some(SqlValue(executor)) = skip_unreadable_executor(row, name, unreadable_rows).during(STEP)?
        else {
            continue;
        };
        sessions.extend(
            match skip_unreadable_executor(row, session::read_session(row), unreadable_rows).during(STEP)? {
                Some(stored) => stored.live.then_some(ObservedSession {
                    executor,
                    session: stored.session,
                    seq: stored.seq,
                }),
                None => Some(ObservedSession::unreadable(executor)),
            },
        );
    }
    Ok(sessions)
}

pub(super) fn expire(
    transaction: &mut GroupTransaction<'_>,
    observed: &ObservedSession,
) -> Result<Option<usize>, SqliteFailure> {
    match session::find(transaction, &observed.executor) {
        Err(SqliteFailure::Refused(StoreError::Unreadable { .. })) if observed.is_unreadable() => {
            session::end_unreadable(transaction, observed)?;
        }
        stored => {
            let is_unchanged = |stored: StoredSession| {
                stored.live && stored.session == observed.session && stored.seq == observed.seq
            };
            if !stored?.is_some_and(is_unchanged) {
                return Ok(None);
            }
            session::end(transaction, &observed.executor)?;
        }
    }
    let trouble = observed.expiry_trouble();
    let lost = Release::lost(&trouble);
    let released = session::release_held_tasks(transaction, &observed.executor, lost)?;
    if !released.is_empty() {
        transaction.record_revoked(&observed.executor);
    }
    Ok(Some(released.len()))
}

pub(super) fn remove_ended(
    transaction: &mut GroupTransaction<'_>,
    ended_before: StoreAge,
) -> Result<usize, SqliteFailure> {
    const STEP: &str = "remove ended executors";
    let removed = transaction
        .statement(
            "DELETE FROM executors WHERE live = 0 AND end_age < ?1 AND drain_reason IS NULL",
            STEP,
        )?
        .execute([SqlValue(ended_before)])
        .during(STEP)?;
    if removed > 0 {
        transaction
            .statement(
                "DELETE FROM executor_tools WHERE executor NOT IN (SELECT name FROM executors)",
                STEP,
            )?
            .execute([])
            .during(STEP)?;
    }
    Ok(removed)
}
