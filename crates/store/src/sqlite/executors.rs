//! Who works here, and who is gone.

use model::{Age, Capacity, ExecutorName, ExecutorState, Health, KnownSession, Moment, Release, SessionId};
use rusqlite::{Connection, Row};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::is_unreadable;
use super::session;
use crate::set_aside::SetAside;
use crate::{SessionSeen, StoreError};

pub(super) fn executors(
    connection: &Connection,
    set_aside: &SetAside,
) -> Result<Vec<ExecutorState>, Failure> {
    const STEP: &str = "list the executors";
    let mut statement = connection
        .prepare_cached(
            "SELECT name, session, live, slots, host, version, since, report_time,
                    (SELECT count(*) FROM tasks WHERE tasks.executor = executors.name),
                    memory, processes, open_files
             FROM executors ORDER BY name",
        )
        .during(STEP)?;
    let read = |row: &Row<'_>| {
        let live: bool = row.get(2)?;
        Ok(ExecutorState {
            name: row.get::<_, Column<ExecutorName>>(0)?.0,
            session: row.get::<_, Column<SessionId>>(1)?.0,
            health: if live { Health::Alive } else { Health::Gone },
            slots: row.get(3)?,
            host: row.get(4)?,
            version: row.get(5)?,
            since: row.get::<_, Column<Moment>>(6)?.0,
            report_time: row.get::<_, Column<Moment>>(7)?.0,
            tasks: row.get(8)?,
            capacity: to_capacity(row.get(9)?, row.get(10)?, row.get(11)?),
        })
    };
    let mut rows = statement.query([]).during(STEP)?;
    let mut all = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        all.extend(readable(row, read(row), set_aside).during(STEP)?);
    }
    Ok(all)
}

/// An executor of an older version has said nothing of it.
fn to_capacity(memory: Option<i64>, processes: Option<u32>, open_files: Option<i64>) -> Option<Capacity> {
    Some(Capacity {
        memory: u64::try_from(memory?).ok()?,
        processes: processes?,
        open_files: u64::try_from(open_files?).ok()?,
    })
}

/// Passes over an executor that cannot be read, and notes it.
fn readable<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    set_aside: &SetAside,
) -> rusqlite::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_unreadable(&error) => {
            let name = row.get::<_, String>(0).unwrap_or_default();
            set_aside.note(format_args!("executor {name}"), error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn live_sessions(
    connection: &Connection,
    set_aside: &SetAside,
) -> Result<Vec<SessionSeen>, Failure> {
    const STEP: &str = "list the live sessions";
    let mut statement = connection
        .prepare_cached("SELECT name, session, seq, live, host, since FROM executors ORDER BY name")
        .during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let mut all = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        let name = row.get::<_, Column<ExecutorName>>(0);
        let Some(Column(executor)) = readable(row, name, set_aside).during(STEP)? else {
            continue;
        };
        all.extend(
            match readable(row, session::to_known(row), set_aside).during(STEP)? {
                Some(known) => known.live.then_some(SessionSeen {
                    executor,
                    session: known.session,
                    seq: known.seq,
                }),
                None => Some(SessionSeen::unreadable(executor)),
            },
        );
    }
    Ok(all)
}

pub(super) fn expire(group: &mut Group<'_>, seen: &SessionSeen) -> Result<Option<usize>, Failure> {
    let session = match session::known(group, &seen.executor) {
        Err(Failure::Refused(StoreError::Unreadable { .. })) if seen.is_unreadable() => {
            session::end_unreadable(group, seen)?;
            None
        }
        known => {
            let same =
                |known: KnownSession| known.live && known.session == seen.session && known.seq == seen.seq;
            if !known?.is_some_and(same) {
                return Ok(None);
            }
            session::end(group, &seen.executor)?;
            Some(seen.session)
        }
    };
    let trouble = format!("executor {} was not heard of any more", seen.executor);
    let released = session::release_all(group, &seen.executor, session, Release::Lost(&trouble))?;
    if !released.is_empty() {
        group.withdrawn(&seen.executor);
    }
    Ok(Some(released.len()))
}

pub(super) fn forget(group: &mut Group<'_>, gone_before: Age) -> Result<usize, Failure> {
    const STEP: &str = "forget executors";
    group
        .statement("DELETE FROM executors WHERE live = 0 AND end_age < ?1", STEP)?
        .execute([Column(gone_before)])
        .during(STEP)
}
