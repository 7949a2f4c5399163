//! Reads rows of the table `tasks`.

use model::{
    AttemptNumber, Capacity, ExecutorName, FailedAttempts, ReportSeq, ResourceRequest, SessionId, Task,
    TaskId, TaskState, TaskStatus, TaskSummary, UnixTime, UserName,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::{SqliteFailure, StepContext};
use super::sql_value::SqlValue;
use crate::document::{decode_result, decode_spec};
use crate::unreadable_rows::UnreadableRows;
use crate::{MAX_SKIPPED_TASKS, StoreError};

/// The columns that `read_task_state` reads. `seq` is the add time of the task.
macro_rules! task_state_columns {
    () => {
        "seq, id, status, executor, session, attempt, lost, given, start_time, user, priority, report_time,
    platform_losses, need_memory, need_processes"
    };
}
pub(super) use task_state_columns;

/// The queue. Its partial index has the same order, so that the first tasks are found at once in a queue of any length.
pub(super) const QUEUED_TASKS: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE executor IS NULL AND finish_time IS NULL ORDER BY priority DESC, seq"
);

pub(super) const HELD_BY_SESSION: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE executor = ?1 AND session = ?2 ORDER BY seq"
);

const HELD_BY_EXECUTOR: &str = concat!(
    "SELECT ",
    task_state_columns!(),
    " FROM tasks WHERE executor = ?1 ORDER BY seq"
);

const BY_ID: &str = concat!("SELECT ", task_state_columns!(), " FROM tasks WHERE id = ?1");

pub(super) fn task_state(connection: &Connection, id: TaskId) -> Result<Option<TaskState>, SqliteFailure> {
    const STEP: &str = "read a task";
    connection
        .prepare_cached(BY_ID)
        .during(STEP)?
        .query_row([SqlValue(id)], read_task_state)
        .optional()
        .map_err(|source| task_failure(id, STEP, source))
}

/// An unreadable row is a refusal: it concerns only the caller that asked for this task. Every other error is a failure
/// of the database.
pub(super) fn task_failure(id: TaskId, step: &'static str, source: rusqlite::Error) -> SqliteFailure {
    if !is_unreadable(&source) {
        return SqliteFailure::Database { step, source };
    }
    SqliteFailure::Refused(StoreError::Unreadable {
        what: "task",
        detail: format!("{id}: {source}"),
    })
}

/// The tasks that the executor holds in this session, or in any session, oldest first.
pub(super) fn held(
    connection: &Connection,
    executor: &ExecutorName,
    session: Option<SessionId>,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<TaskState>, SqliteFailure> {
    const STEP: &str = "read the tasks of a session";
    let sql = match session {
        Some(_) => HELD_BY_SESSION,
        None => HELD_BY_EXECUTOR,
    };
    let mut statement = connection.prepare_cached(sql).during(STEP)?;
    let mut rows = match session {
        Some(session) => statement.query((SqlValue(executor), SqlValue(session))),
        None => statement.query([SqlValue(executor)]),
    }
    .during(STEP)?;
    let mut held = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        held.extend(skip_unreadable_task(row, read_task_state(row), unreadable_rows).during(STEP)?);
    }
    Ok(held)
}

/// The first readable tasks of the queue. With a capacity, only tasks that fit it.
pub(super) fn queued(
    connection: &Connection,
    limit: u32,
    capacity: Option<Capacity>,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<TaskState>, SqliteFailure> {
    const STEP: &str = "read the queue";
    let mut statement = connection.prepare_cached(QUEUED_TASKS).during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let (mut queued, mut skipped) = (vec![], 0);
    while queued.len() < limit as usize
        && skipped < MAX_SKIPPED_TASKS
        && let Some(row) = rows.next().during(STEP)?
    {
        match skip_unreadable_task(row, read_task_state(row), unreadable_rows).during(STEP)? {
            Some(task) if task.status.is_done() => {
                unreadable_rows.record(
                    describe_task(row),
                    "the task is in the queue, but its status is terminal",
                );
            }
            Some(task) if capacity.is_some_and(|capacity| !capacity.fits(task.resources)) => skipped += 1,
            task => queued.extend(task),
        }
    }
    Ok(queued)
}

/// The encoded spec of the task with this add time. A missing spec is returned as empty bytes, which do not decode.
pub(super) fn spec(connection: &Connection, add_time: UnixTime) -> Result<Vec<u8>, SqliteFailure> {
    const STEP: &str = "read a task's spec";
    connection
        .prepare_cached("SELECT spec FROM specs WHERE seq = ?1")
        .during(STEP)?
        .query_row([SqlValue(add_time)], |row| row.get(0))
        .optional()
        .map(Option::unwrap_or_default)
        .during(STEP)
}

pub(super) fn task(
    connection: &Connection,
    id: TaskId,
    unreadable_rows: &UnreadableRows,
) -> Result<Option<Task>, SqliteFailure> {
    const STEP: &str = "read a task";
    let mut statement = connection
        .prepare_cached(
            "SELECT seq, id, status, executor, session, attempt, start_time, report_time, finish_time, trouble,
                    spec, result, user, priority, lost, given, platform_losses
             FROM tasks LEFT JOIN specs USING (seq) LEFT JOIN results USING (seq) WHERE id = ?1",
        )
        .during(STEP)?;
    let mut rows = statement.query([SqlValue(id)]).during(STEP)?;
    match rows.next().during(STEP)? {
        Some(row) => read_task(row).map(Some).map_err(|failure| {
            let failure = match failure {
                SqliteFailure::Database { step, source } => task_failure(id, step, source),
                SqliteFailure::Refused(error) => SqliteFailure::Refused(error.for_task(id)),
                other => other,
            };
            if let SqliteFailure::Refused(error) = &failure {
                unreadable_rows.record(format_args!("task {id}"), error);
            }
            failure
        }),
        None => Ok(None),
    }
}

/// The columns that `read_summary` reads.
pub(super) const SUMMARY_COLUMNS: &str =
    "seq, id, user, priority, command, status, executor, attempt, start_time, finish_time,
    compile, session, lost, given, platform_losses";
/// The column after them, which a search adds: whether the task matches.
pub(super) const MATCHES_COLUMN: usize = 15;

/// Also checks the columns that a summary does not show: a task that is unreadable for another operation is on no list.
pub(super) fn read_summary(row: &Row<'_>) -> rusqlite::Result<TaskSummary> {
    read_optional::<SessionId>(row, 11)?;
    row.get::<_, u32>(12)?;
    row.get::<_, SqlValue<ReportSeq>>(13)?;
    row.get::<_, u32>(14)?;
    Ok(TaskSummary {
        add_time: row.get::<_, SqlValue<UnixTime>>(0)?.0,
        id: row.get::<_, SqlValue<TaskId>>(1)?.0,
        user: row.get::<_, SqlValue<UserName>>(2)?.0,
        priority: row.get(3)?,
        command: TaskSummary::shorten_command(row.get_ref(4)?.as_str()?),
        status: row.get::<_, SqlValue<TaskStatus>>(5)?.0,
        executor: read_optional(row, 6)?,
        attempt: row.get::<_, SqlValue<AttemptNumber>>(7)?.0,
        start_time: read_optional(row, 8)?,
        finish_time: read_optional(row, 9)?,
    })
}

pub(super) fn read_task_state(row: &Row<'_>) -> rusqlite::Result<TaskState> {
    // No transition needs the user, but a task that no list can show must not be handed out.
    row.get::<_, SqlValue<UserName>>(9)?;
    Ok(TaskState {
        add_time: row.get::<_, SqlValue<UnixTime>>(0)?.0,
        id: row.get::<_, SqlValue<TaskId>>(1)?.0,
        status: row.get::<_, SqlValue<TaskStatus>>(2)?.0,
        executor: read_optional(row, 3)?,
        session: read_optional(row, 4)?,
        attempt: row.get::<_, SqlValue<AttemptNumber>>(5)?.0,
        failed_attempts: FailedAttempts {
            lost: row.get(6)?,
            platform: row.get(12)?,
        },
        assigned_in: row.get::<_, SqlValue<ReportSeq>>(7)?.0,
        start_time: read_optional(row, 8)?,
        priority: row.get(10)?,
        report_time: read_optional(row, 11)?,
        resources: ResourceRequest {
            memory: u64::try_from(row.get::<_, i64>(13)?).unwrap_or(0),
            processes: u32::try_from(row.get::<_, i64>(14)?).unwrap_or(0),
        },
    })
}

/// Turns the error of an unreadable row into `None`, and records the row.
pub(super) fn skip_unreadable_task<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    unreadable_rows: &UnreadableRows,
) -> rusqlite::Result<Option<T>> {
    skip_unreadable(read, |error| unreadable_rows.record(describe_task(row), error))
}

/// Like `skip_unreadable_task`, for a blob whose hash is the first column.
pub(super) fn skip_unreadable_blob<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    unreadable_rows: &UnreadableRows,
) -> rusqlite::Result<Option<T>> {
    skip_unreadable(read, |error| {
        unreadable_rows.record(format_args!("blob {:?}", row.get_ref(0).ok()), error);
    })
}

/// Like `skip_unreadable_task`, for an executor whose name is the first column.
pub(super) fn skip_unreadable_executor<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    unreadable_rows: &UnreadableRows,
) -> rusqlite::Result<Option<T>> {
    skip_unreadable(read, |error| {
        let name = row.get::<_, String>(0).unwrap_or_default();
        unreadable_rows.record(format_args!("executor {name}"), error);
    })
}

fn skip_unreadable<T>(
    read: rusqlite::Result<T>,
    record: impl FnOnce(rusqlite::Error),
) -> rusqlite::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_unreadable(&error) => {
            record(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether the row exists, but holds a value that this program never writes.
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

/// Names the task of an unreadable row by its id, if that is readable, or by its key.
fn describe_task(row: &Row<'_>) -> String {
    let id = row.get::<_, SqlValue<TaskId>>(1).map(|id| id.0);
    match (id, row.get::<_, i64>(0)) {
        (Ok(id), _) => format!("task {id}"),
        (Err(_), Ok(seq)) => format!("task with seq {seq}"),
        (Err(_), Err(_)) => "task without a key".into(),
    }
}

fn read_task(row: &Row<'_>) -> Result<Task, SqliteFailure> {
    const STEP: &str = "read a task";
    // Checked but not returned, as in `read_summary`.
    row.get::<_, SqlValue<UserName>>(12).during(STEP)?;
    row.get::<_, i32>(13).during(STEP)?;
    row.get::<_, u32>(14).during(STEP)?;
    row.get::<_, SqlValue<ReportSeq>>(15).during(STEP)?;
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
        id: row.get::<_, SqlValue<TaskId>>(1).during(STEP)?.0,
        spec: decode_spec(spec).map_err(SqliteFailure::Refused)?,
        status: row.get::<_, SqlValue<TaskStatus>>(2).during(STEP)?.0,
        executor: read_optional(row, 3).during(STEP)?,
        session: read_optional(row, 4).during(STEP)?,
        attempt: row.get::<_, SqlValue<AttemptNumber>>(5).during(STEP)?.0,
        add_time: row.get::<_, SqlValue<UnixTime>>(0).during(STEP)?.0,
        start_time: read_optional(row, 6).during(STEP)?,
        report_time: read_optional(row, 7).during(STEP)?,
        finish_time: read_optional(row, 8).during(STEP)?,
        result: result
            .map(decode_result)
            .transpose()
            .map_err(SqliteFailure::Refused)?,
        trouble: row.get(9).during(STEP)?,
    })
}

fn read_optional<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    SqlValue<T>: rusqlite::types::FromSql,
{
    Ok(row.get::<_, Option<SqlValue<T>>>(column)?.map(|value| value.0))
}
