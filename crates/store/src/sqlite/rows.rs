//! Rows of tasks, read as the model's values.

use model::{
    Attempt, Brief, Capacity, ExecutorName, Handout, Holding, Losses, Moment, Need, Seq, SessionId, Status,
    Task, TaskId, UserName,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::column::Column;
use super::failure::{During, Failure};
use crate::document::{decode_result, decode_spec};
use crate::set_aside::SetAside;
use crate::{MOST_PASSED_OVER, StoreError};

/// What a transition has to know of a task.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) status: Status,
    pub(super) executor: Option<ExecutorName>,
    pub(super) session: Option<SessionId>,
    pub(super) attempt: Attempt,
    pub(super) losses: Losses,
    pub(super) given: Seq,
    pub(super) start_time: Option<Moment>,
    pub(super) need: Need,
    /// The latest of its times.
    pub(super) latest: Moment,
}

/// The columns that `to_position` reads. The times of a task begin with its `seq`.
macro_rules! position_columns {
    () => {
        "seq, id, status, executor, session, attempt, lost, given, start_time, user, priority,
    max(seq, coalesce(start_time, seq), coalesce(report_time, seq)), platform_losses,
    need_memory, need_processes"
    };
}
pub(super) use position_columns;

/// Along the index of those that wait, which is in this very order: the first are found at once, however many
/// there are.
pub(super) const WAITING: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM tasks WHERE executor IS NULL AND finish_time IS NULL ORDER BY priority DESC, seq"
);

pub(super) const HELD: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM tasks WHERE executor = ?1 AND session = ?2 ORDER BY seq"
);

const HELD_IN_ANY_SESSION: &str = concat!(
    "SELECT ",
    position_columns!(),
    " FROM tasks WHERE executor = ?1 ORDER BY seq"
);

const BY_ID: &str = concat!("SELECT ", position_columns!(), " FROM tasks WHERE id = ?1");

pub(super) fn position(connection: &Connection, id: TaskId) -> Result<Option<Position>, Failure> {
    const STEP: &str = "read a task";
    connection
        .prepare_cached(BY_ID)
        .during(STEP)?
        .query_row([Column(id)], to_position)
        .optional()
        .map_err(|source| unreadable(id, STEP, source))
}

/// A row that cannot be read concerns only the caller who asked for this task; so this is no failure of the storage.
pub(super) fn unreadable(id: TaskId, step: &'static str, source: rusqlite::Error) -> Failure {
    if !is_unreadable(&source) {
        return Failure::Database { step, source };
    }
    Failure::Refused(StoreError::Unreadable {
        what: "task",
        detail: format!("{id}: {source}"),
    })
}

/// What a session holds, oldest first. Without a session, what is held in any of them.
pub(super) fn held(
    connection: &Connection,
    executor: &ExecutorName,
    session: Option<SessionId>,
    set_aside: &SetAside,
) -> Result<Vec<Position>, Failure> {
    const STEP: &str = "read what a session holds";
    let sql = match session {
        Some(_) => HELD,
        None => HELD_IN_ANY_SESSION,
    };
    let mut statement = connection.prepare_cached(sql).during(STEP)?;
    let mut rows = match session {
        Some(session) => statement.query((Column(executor), Column(session))),
        None => statement.query([Column(executor)]),
    }
    .during(STEP)?;
    let mut held = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        held.extend(readable(row, to_position(row), set_aside).during(STEP)?);
    }
    Ok(held)
}

/// The first in the queue that can be read, within the capacity if there is one.
pub(super) fn waiting(
    connection: &Connection,
    limit: u32,
    capacity: Option<Capacity>,
    set_aside: &SetAside,
) -> Result<Vec<Position>, Failure> {
    const STEP: &str = "read the queue";
    let mut statement = connection.prepare_cached(WAITING).during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let (mut waiting, mut passed_over) = (vec![], 0);
    while waiting.len() < limit as usize
        && passed_over < MOST_PASSED_OVER
        && let Some(row) = rows.next().during(STEP)?
    {
        match readable(row, to_position(row), set_aside).during(STEP)? {
            Some(task) if task.status.done() => {
                set_aside.note(
                    name(row),
                    "it is in the queue, but its status is one of a task that is done",
                );
            }
            Some(task) if capacity.is_some_and(|capacity| !capacity.covers(task.need)) => passed_over += 1,
            task => waiting.extend(task),
        }
    }
    Ok(waiting)
}

/// Empty if it is missing, which is as unreadable as any other spec that makes no sense.
pub(super) fn spec(connection: &Connection, seq: i64) -> Result<Vec<u8>, Failure> {
    const STEP: &str = "read a task's spec";
    connection
        .prepare_cached("SELECT spec FROM specs WHERE seq = ?1")
        .during(STEP)?
        .query_row([seq], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
        .during(STEP)
}

pub(super) fn task(
    connection: &Connection,
    id: TaskId,
    set_aside: &SetAside,
) -> Result<Option<Task>, Failure> {
    const STEP: &str = "read a task";
    let mut statement = connection
        .prepare_cached(
            "SELECT seq, id, status, executor, session, attempt, start_time, report_time, finish_time, trouble,
                    spec, result, user, priority, lost, given, platform_losses
             FROM tasks LEFT JOIN specs USING (seq) LEFT JOIN results USING (seq) WHERE id = ?1",
        )
        .during(STEP)?;
    let mut rows = statement.query([Column(id)]).during(STEP)?;
    match rows.next().during(STEP)? {
        Some(row) => to_task(row).map(Some).map_err(|failure| {
            let failure = match failure {
                Failure::Database { step, source } => unreadable(id, step, source),
                Failure::Refused(error) => Failure::Refused(error.of_task(id)),
                other => other,
            };
            if let Failure::Refused(error) = &failure {
                set_aside.note(format_args!("task {id}"), error);
            }
            failure
        }),
        None => Ok(None),
    }
}

pub(super) const BRIEF: &str =
    "seq, id, user, priority, command, status, executor, attempt, start_time, finish_time,
    compile, session, lost, given, platform_losses";
/// The column behind these.
pub(super) const CHECKED: usize = 15;

/// What a list does not show is read all the same: a task that nothing else can do with is on no list.
pub(super) fn to_brief(row: &Row<'_>) -> rusqlite::Result<Brief> {
    optional::<SessionId>(row, 11)?;
    row.get::<_, u32>(12)?;
    row.get::<_, Column<Seq>>(13)?;
    row.get::<_, u32>(14)?;
    Ok(Brief {
        add_time: row.get::<_, Column<Moment>>(0)?.0,
        id: row.get::<_, Column<TaskId>>(1)?.0,
        user: row.get::<_, Column<UserName>>(2)?.0,
        priority: row.get(3)?,
        command: Brief::command(row.get_ref(4)?.as_str()?),
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

pub(super) fn to_position(row: &Row<'_>) -> rusqlite::Result<Position> {
    // No transition needs these two, but a task that no list can show is not handed out.
    row.get::<_, Column<UserName>>(9)?;
    row.get::<_, i32>(10)?;
    Ok(Position {
        seq: row.get(0)?,
        id: row.get::<_, Column<TaskId>>(1)?.0,
        status: row.get::<_, Column<Status>>(2)?.0,
        executor: optional(row, 3)?,
        session: optional(row, 4)?,
        attempt: row.get::<_, Column<Attempt>>(5)?.0,
        losses: Losses {
            lost: row.get(6)?,
            platform: row.get(12)?,
        },
        given: row.get::<_, Column<Seq>>(7)?.0,
        start_time: optional(row, 8)?,
        need: Need {
            memory: u64::try_from(row.get::<_, i64>(13)?).unwrap_or(0),
            processes: u32::try_from(row.get::<_, i64>(14)?).unwrap_or(0),
        },
        latest: row.get::<_, Column<Moment>>(11)?.0,
    })
}

/// Passes over a row that cannot be read, and notes it.
pub(super) fn readable<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    set_aside: &SetAside,
) -> rusqlite::Result<Option<T>> {
    unless_unreadable(read, |error| set_aside.note(name(row), error))
}

/// The same for a blob, whose hash is the first column.
pub(super) fn readable_blob<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    set_aside: &SetAside,
) -> rusqlite::Result<Option<T>> {
    unless_unreadable(read, |error| {
        set_aside.note(format_args!("blob {:?}", row.get_ref(0).ok()), error);
    })
}

fn unless_unreadable<T>(
    read: rusqlite::Result<T>,
    note: impl FnOnce(rusqlite::Error),
) -> rusqlite::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_unreadable(&error) => {
            note(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the row was found, but holds something that this program never writes.
pub(super) fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}

/// By its id, if at least that can be read, or by its key.
fn name(row: &Row<'_>) -> String {
    let id = row.get::<_, Column<TaskId>>(1).map(|id| id.0);
    match (id, row.get::<_, i64>(0)) {
        (Ok(id), _) => format!("task {id}"),
        (Err(_), Ok(seq)) => format!("task with seq {seq}"),
        (Err(_), Err(_)) => "task without a key".into(),
    }
}

fn to_task(row: &Row<'_>) -> Result<Task, Failure> {
    const STEP: &str = "read a task";
    row.get::<_, Column<UserName>>(12).during(STEP)?;
    row.get::<_, i32>(13).during(STEP)?;
    row.get::<_, u32>(14).during(STEP)?;
    row.get::<_, Column<Seq>>(15).during(STEP)?;
    row.get::<_, u32>(16).during(STEP)?;
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
