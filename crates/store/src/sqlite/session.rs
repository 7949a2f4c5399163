//! Sessions: one row for each executor, with the session it is in or was in last.

use model::{Capacity, ExecutorName, KnownSession, Moment, Release, Report, Seq, SessionId};
use rusqlite::{OptionalExtension, Row};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::{self, Position};
use super::transition::release;
use crate::{SessionSeen, StoreError};

pub(super) fn known(group: &Group<'_>, name: &ExecutorName) -> Result<Option<KnownSession>, Failure> {
    const STEP: &str = "read an executor";
    group
        .statement(
            "SELECT name, session, seq, live, host, since FROM executors WHERE name = ?1",
            STEP,
        )?
        .query_row([Column(name)], to_known)
        .optional()
        .map_err(|source| match rows::is_unreadable(&source) {
            // Nothing was written yet: only this executor's report is refused, until the leader has expired it.
            true => {
                group.set_aside().note(format_args!("executor {name}"), &source);
                Failure::Refused(StoreError::Unreadable {
                    what: "executor",
                    detail: format!("{name}: {source}"),
                })
            }
            false => Failure::Database { step: STEP, source },
        })
}

/// Of the columns behind the name.
pub(super) fn to_known(row: &Row<'_>) -> rusqlite::Result<KnownSession> {
    Ok(KnownSession {
        session: row.get::<_, Column<SessionId>>(1)?.0,
        seq: row.get::<_, Column<Seq>>(2)?.0,
        live: row.get(3)?,
        host: row.get(4)?,
        since: row.get::<_, Column<Moment>>(5)?.0,
    })
}

/// The one write of a report that carries nothing new.
pub(super) fn renew(group: &Group<'_>, report: &Report) -> Result<(), Failure> {
    const STEP: &str = "renew a session";
    let presence = &report.presence;
    group
        .statement(
            "UPDATE executors SET seq = ?2, report_time = max(report_time, ?3), slots = ?4, host = ?5, version = ?6,
                 memory = ?7, processes = ?8, open_files = ?9 WHERE name = ?1",
            STEP,
        )?
        .execute((
            Column(&report.executor),
            Column(report.seq),
            Column(group.now()),
            presence.slots,
            &presence.host,
            &presence.version,
            presence.capacity.map(|capacity| bounded(capacity.memory)),
            presence.capacity.map(|capacity| capacity.processes),
            presence.capacity.map(|capacity| bounded(capacity.open_files)),
        ))
        .map(drop)
        .during(STEP)
}

/// Whether a live executor can give more to a task, or does not say what it can give.
pub(super) fn has_larger(group: &Group<'_>, own: Capacity) -> Result<bool, Failure> {
    const STEP: &str = "look for a larger executor";
    group
        .statement(
            "SELECT 1 FROM executors WHERE live = 1 AND (memory IS NULL OR memory > ?1)",
            STEP,
        )?
        .exists([bounded(own.memory)])
        .during(STEP)
}

/// SQLite has no larger number.
fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn open(group: &Group<'_>, report: &Report) -> Result<(), Failure> {
    const STEP: &str = "open a session";
    let presence = &report.presence;
    group
        .statement(
            "INSERT OR REPLACE INTO executors (name, session, seq, live, slots, host, version, since, report_time,
                                               memory, processes, open_files)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10)",
            STEP,
        )?
        .execute((
            Column(&report.executor),
            Column(report.session),
            Column(report.seq),
            presence.slots,
            &presence.host,
            &presence.version,
            Column(group.now()),
            presence.capacity.map(|capacity| bounded(capacity.memory)),
            presence.capacity.map(|capacity| capacity.processes),
            presence.capacity.map(|capacity| bounded(capacity.open_files)),
        ))
        .map(drop)
        .during(STEP)
}

/// The row stays, so that people see who was here and late reports of the session are told that it has ended.
pub(super) fn end(group: &Group<'_>, name: &ExecutorName) -> Result<(), Failure> {
    const STEP: &str = "end a session";
    group
        .statement(
            "UPDATE executors SET live = 0, end_age = ?2 WHERE name = ?1",
            STEP,
        )?
        .execute((Column(name), Column(group.age())))
        .map(drop)
        .during(STEP)
}

/// Puts an ended session in the place of a row that cannot be read.
pub(super) fn end_unreadable(group: &Group<'_>, seen: &SessionSeen) -> Result<(), Failure> {
    const STEP: &str = "end an unreadable session";
    group
        .statement(
            "INSERT OR REPLACE INTO executors
                 (name, session, seq, live, slots, host, version, since, report_time, end_age)
             VALUES (?1, ?2, ?3, 0, 0, '', '', ?4, ?4, ?5)",
            STEP,
        )?
        .execute((
            Column(&seen.executor),
            Column(seen.session),
            Column(seen.seq),
            Column(group.now()),
            Column(group.age()),
        ))
        .map(drop)
        .during(STEP)
}

/// Releases everything that a session holds, and says what that was. Without a session, what is held in any of them.
pub(super) fn release_all(
    group: &mut Group<'_>,
    executor: &ExecutorName,
    session: Option<SessionId>,
    why: Release<'_>,
) -> Result<Vec<Position>, Failure> {
    let held = rows::held(group.connection(), executor, session, group.set_aside())?;
    for task in &held {
        release(group, task, why)?;
    }
    Ok(held)
}
