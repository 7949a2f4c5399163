//! Reads rows of the table `tasks`.

use model::{
    AttemptNumber, AttemptRecord, ExecutorName, FailedAttempts, GroupKey, Labels, ReportSeq, ResourceRequest,
    SessionId, Task, TaskForm, TaskId, TaskState, TaskStatus, TaskSummary, ToolRequirement, UnixTime,
    UserName,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::failure::{SqliteFailure, StepContext};
use super::sql_value::SqlValue;
use crate::StoreError;
use crate::document::{decode_result, decode_spec};
use crate::unreadable_rows::UnreadableRows;

/// The columns that `read_task_state` reads. `seq` is the add time of the task.
macro_rules! task_state_columns {
    () => {
        "seq, id, status, executor, session, attempt, lost, given, start_time, user, priority, report_time,
    platform_losses, need_memory, need_processes, form, max_attempts, reason, grp, retried, needs"
    };
}
pub(super) use task_state_columns;

pub(super) const HELD_BY_EXECUTOR: &str = concat!(
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

/// The tasks that the executor holds in any session, oldest first.
pub(super) fn held(
    connection: &Connection,
    executor: &ExecutorName,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<TaskState>, SqliteFailure> {
    const STEP: &str = "read the tasks of an executor";
    let mut statement = connection.prepare_cached(HELD_BY_EXECUTOR).during(STEP)?;
    let mut rows = statement.query([SqlValue(executor)]).during(STEP)?;
    let mut held = vec![];
    while let Some(row) = rows.next().during(STEP)? {
        held.extend(skip_unreadable_task(row, read_task_state(row), unreadable_rows).during(STEP)?);
    }
    Ok(held)
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
        .prepare_cached(concat!(
            "SELECT ",
            task_state_columns!(),
            ", finish_time, trouble, ran_on, spec, result
             FROM tasks LEFT JOIN specs USING (seq) LEFT JOIN results USING (seq) WHERE id = ?1"
        ))
        .during(STEP)?;
    let mut rows = statement.query([SqlValue(id)]).during(STEP)?;
    match rows.next().during(STEP)? {
        Some(row) => read_task(row).map(Some).map_err(|failure| {
            let failure = match failure {
                SqliteFailure::Database { step, source } => task_failure(id, step, source),
                SqliteFailure::Refused(error) => SqliteFailure::Refused(error.for_task(id)),
                other => other,
            };
            if let SqliteFailure::Refused(error) = &failure
                && !matches!(error, StoreError::NewerForm(_))
            {
                unreadable_rows.record(format_args!("task {id}"), error);
            }
            failure
        }),
        None => Ok(None),
    }
}

/// The columns that `read_summary` reads, after the first one, which is `seq`.
pub(super) const SUMMARY_COLUMNS: &str =
    "id, user, priority, command, status, executor, attempt, start_time, finish_time,
    compile, session, lost, given, platform_losses, reason, labels, grp, needs";
/// The column after them, which a search adds: whether the task matches.
pub(super) const MATCHES_COLUMN: usize = 19;

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
        reason: read_optional(row, 15)?,
        labels: row.get::<_, SqlValue<Labels>>(16)?.0,
        group: read_optional(row, 17)?,
        language: row.get::<_, SqlValue<ToolRequirement>>(18)?.0.language,
        executor: read_optional(row, 6)?,
        attempt: row.get::<_, SqlValue<AttemptNumber>>(7)?.0,
        start_time: read_optional(row, 8)?,
        finish_time: read_optional(row, 9)?,
    })
}

pub(super) fn read_task_state(row: &Row<'_>) -> rusqlite::Result<TaskState> {
    // Only groups need the user, but a task that no list can show must not be handed out.
    let SqlValue(user) = row.get::<_, SqlValue<UserName>>(9)?;
    let group = read_optional(row, 18)?.map(|group| GroupKey { user, group });
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
        requires: row.get::<_, SqlValue<ToolRequirement>>(20)?.0,
        form: row.get::<_, SqlValue<TaskForm>>(15)?.0,
        max_attempts: row.get(16)?,
        reason: read_optional(row, 17)?,
        group,
        retried: row.get(19)?,
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

/// Like `skip_unreadable_task`, for a group whose user and name are the first columns.
pub(super) fn skip_unreadable_group<T>(
    row: &Row<'_>,
    read: rusqlite::Result<T>,
    unreadable_rows: &UnreadableRows,
) -> rusqlite::Result<Option<T>> {
    skip_unreadable(read, |error| {
        let (user, name) = (row.get_ref(0).ok(), row.get_ref(1).ok());
        unreadable_rows.record(format_args!("group {user:?} {name:?}"), error);
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

/// The number of columns in `task_state_columns`.
const STATE_COLUMNS: usize = 21;

fn read_task(row: &Row<'_>) -> Result<Task, SqliteFailure> {
    const STEP: &str = "read a task";
    let state = read_task_state(row).during(STEP)?;
    let column = |number| STATE_COLUMNS + number;
    let spec = row
        .get_ref(column(3))
        .and_then(|spec| Ok(spec.as_blob()?))
        .during(STEP)?;
    let result = row
        .get_ref(column(4))
        .and_then(|result| Ok(result.as_blob_or_null()?))
        .during(STEP)?;
    let SqlValue(mut ran_on) = row
        .get::<_, SqlValue<Vec<AttemptRecord>>>(column(2))
        .during(STEP)?;
    ran_on.extend(state.running_attempt());
    keep_newest_attempts(&mut ran_on);
    Ok(Task {
        id: state.id,
        spec: decode_spec(spec).map_err(SqliteFailure::Refused)?,
        status: state.status,
        executor: state.executor,
        session: state.session,
        attempt: state.attempt,
        add_time: state.add_time,
        start_time: state.start_time,
        report_time: state.report_time,
        finish_time: read_optional(row, column(0)).during(STEP)?,
        ran_on,
        result: result
            .map(decode_result)
            .transpose()
            .map_err(SqliteFailure::Refused)?,
        trouble: row.get(column(1)).during(STEP)?,
    })
}

/// The newest attempts of the task that have ended, oldest first.
pub(super) fn ended_attempts(
    connection: &Connection,
    task: &TaskState,
    unreadable_rows: &UnreadableRows,
) -> Result<Vec<AttemptRecord>, SqliteFailure> {
    const STEP: &str = "read the attempts of a task";
    let read = connection
        .prepare_cached("SELECT ran_on FROM tasks WHERE seq = ?1")
        .during(STEP)?
        .query_row([SqlValue(task.add_time)], |row| {
            row.get::<_, SqlValue<Vec<AttemptRecord>>>(0)
        });
    // An unreadable list must not keep the task from ending. It is replaced.
    let attempts = skip_unreadable(read, |error| {
        unreadable_rows.record(format_args!("attempts of task {}", task.id), error);
    });
    let attempts = attempts.during(STEP)?;
    Ok(attempts.map(|attempts| attempts.0).unwrap_or_default())
}

/// Removes the oldest attempts if there are too many.
pub(super) fn keep_newest_attempts(attempts: &mut Vec<AttemptRecord>) {
    let surplus = attempts.len().saturating_sub(AttemptRecord::MAX_COUNT);
    attempts.drain(..surplus);
}

pub(super) fn read_optional<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    SqlValue<T>: rusqlite::types::FromSql,
{
    Ok(row.get::<_, Option<SqlValue<T>>>(column)?.map(|value| value.0))
}
