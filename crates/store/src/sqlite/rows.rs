//! Rows of tasks, read as the model's values.

use model::{
    Attempt, Brief, ExecutorName, Handout, Holding, Moment, Seq, SessionId, Status, Task, TaskId, UserName,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::column::Column;
use super::failure::{During, Failure};
use crate::document::{decode_result, decode_spec};

/// What a transition has to know of a task.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) status: Status,
    pub(super) executor: Option<ExecutorName>,
    pub(super) session: Option<SessionId>,
    pub(super) attempt: Attempt,
    pub(super) lost: u32,
    pub(super) given: Seq,
    pub(super) start_time: Option<Moment>,
    /// The latest of its times.
    pub(super) latest: Moment,
}

/// Along the index of those that wait, which is in this very order: the first are found at once, however many
/// there are.
pub(super) const WAITING: &str = "SELECT seq, id, status, executor, session, attempt, lost, given, start_time,
    max(seq, coalesce(start_time, seq), coalesce(report_time, seq)) FROM tasks WHERE executor IS NULL AND finish_time IS NULL ORDER BY priority DESC, seq LIMIT ?1";

pub(super) const HELD: &str = "SELECT seq, id, status, executor, session, attempt, lost, given, start_time,
    max(seq, coalesce(start_time, seq), coalesce(report_time, seq)) FROM tasks WHERE executor = ?1 AND session = ?2 ORDER BY seq";

const BY_ID: &str = "SELECT seq, id, status, executor, session, attempt, lost, given, start_time,
    max(seq, coalesce(start_time, seq), coalesce(report_time, seq)) FROM tasks WHERE id = ?1";

pub(super) fn position(connection: &Connection, id: TaskId) -> Result<Option<Position>, Failure> {
    const STEP: &str = "read a task";
    connection
        .prepare_cached(BY_ID)
        .during(STEP)?
        .query_row([Column(id)], to_position)
        .optional()
        .during(STEP)
}

/// What a session holds, oldest first.
pub(super) fn held(
    connection: &Connection,
    executor: &ExecutorName,
    session: SessionId,
) -> Result<Vec<Position>, Failure> {
    const STEP: &str = "read what a session holds";
    let mut statement = connection.prepare_cached(HELD).during(STEP)?;
    let rows = statement
        .query_map((Column(executor), Column(session)), to_position)
        .during(STEP)?;
    rows.collect::<rusqlite::Result<_>>().during(STEP)
}

/// The first in the queue.
pub(super) fn waiting(connection: &Connection, limit: u32) -> Result<Vec<Position>, Failure> {
    const STEP: &str = "read the queue";
    let mut statement = connection.prepare_cached(WAITING).during(STEP)?;
    let rows = statement.query_map([limit], to_position).during(STEP)?;
    rows.collect::<rusqlite::Result<_>>().during(STEP)
}

pub(super) fn spec(connection: &Connection, seq: i64) -> Result<Vec<u8>, Failure> {
    const STEP: &str = "read a task's spec";
    connection
        .prepare_cached("SELECT spec FROM specs WHERE seq = ?1")
        .during(STEP)?
        .query_row([seq], |row| row.get(0))
        .during(STEP)
}

pub(super) fn task(connection: &Connection, id: TaskId) -> Result<Option<Task>, Failure> {
    const STEP: &str = "read a task";
    let mut statement = connection
        .prepare_cached(
            "SELECT seq, id, status, executor, session, attempt, start_time, report_time, finish_time, trouble,
                    spec, result
             FROM tasks LEFT JOIN specs USING (seq) LEFT JOIN results USING (seq) WHERE id = ?1",
        )
        .during(STEP)?;
    let mut rows = statement.query([Column(id)]).during(STEP)?;
    match rows.next().during(STEP)? {
        Some(row) => to_task(row).map(Some),
        None => Ok(None),
    }
}

pub(super) const BRIEF: &str =
    "seq, id, user, priority, command, status, executor, attempt, start_time, finish_time, compile";

pub(super) fn to_brief(row: &Row<'_>) -> rusqlite::Result<Brief> {
    Ok(Brief {
        add_time: row.get::<_, Column<Moment>>(0)?.0,
        id: row.get::<_, Column<TaskId>>(1)?.0,
        user: row.get::<_, Column<UserName>>(2)?.0,
        priority: row.get(3)?,
        command: row.get(4)?,
        status: row.get::<_, Column<Status>>(5)?.0,
        executor: optional(row, 6)?,
        attempt: row.get::<_, Column<Attempt>>(7)?.0,
        start_time: optional(row, 8)?,
        finish_time: optional(row, 9)?,
    })
}

impl Position {
    pub(super) fn holding(&self, session: SessionId) -> Holding {
        Holding {
            handout: Handout {
                task: self.id,
                session,
                attempt: self.attempt,
            },
            given: self.given,
        }
    }

    /// Whether this is the very attempt that is out now, and with whom.
    pub(super) fn is_out_as(&self, handout: Handout, executor: &ExecutorName) -> bool {
        self.id == handout.task
            && self.executor.as_ref() == Some(executor)
            && self.session == Some(handout.session)
            && self.attempt == handout.attempt
    }
}

fn to_position(row: &Row<'_>) -> rusqlite::Result<Position> {
    Ok(Position {
        seq: row.get(0)?,
        id: row.get::<_, Column<TaskId>>(1)?.0,
        status: row.get::<_, Column<Status>>(2)?.0,
        executor: optional(row, 3)?,
        session: optional(row, 4)?,
        attempt: row.get::<_, Column<Attempt>>(5)?.0,
        lost: row.get(6)?,
        given: row.get::<_, Column<Seq>>(7)?.0,
        start_time: optional(row, 8)?,
        latest: row.get::<_, Column<Moment>>(9)?.0,
    })
}

fn to_task(row: &Row<'_>) -> Result<Task, Failure> {
    const STEP: &str = "read a task";
    let spec = row
        .get_ref(10)
        .and_then(|spec| Ok(spec.as_blob()?))
        .during(STEP)?;
    let result = row
        .get_ref(11)
        .and_then(|result| Ok(result.as_blob_or_null()?))
        .during(STEP)?;
    Ok(Task {
        id: row.get::<_, Column<TaskId>>(1).during(STEP)?.0,
        spec: decode_spec(spec).map_err(Failure::Refused)?,
        status: row.get::<_, Column<Status>>(2).during(STEP)?.0,
        executor: optional(row, 3).during(STEP)?,
        session: optional(row, 4).during(STEP)?,
        attempt: row.get::<_, Column<Attempt>>(5).during(STEP)?.0,
        add_time: row.get::<_, Column<Moment>>(0).during(STEP)?.0,
        start_time: optional(row, 6).during(STEP)?,
        report_time: optional(row, 7).during(STEP)?,
        finish_time: optional(row, 8).during(STEP)?,
        result: result.map(decode_result).transpose().map_err(Failure::Refused)?,
        trouble: row.get(9).during(STEP)?,
    })
}

fn optional<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    Column<T>: rusqlite::types::FromSql,
{
    Ok(row.get::<_, Option<Column<T>>>(column)?.map(|value| value.0))
}
