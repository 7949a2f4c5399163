//! The changes of one task that several operations share. Who calls has checked that the task is where the
//! change begins; within a group nobody else can move it in between.

use model::{ExecutorName, Status};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::Position;

/// Why an attempt is taken back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Release<'a> {
    /// The executor gave it back before it came to anything; that counts against nobody.
    GivenBack,
    /// It went down with its executor, or the executor could not run it. Only so many of these are borne, for
    /// a task that takes every executor with it must end some time.
    Lost(&'a str),
}

/// Takes a held task back into the queue, or ends it if it was lost too often.
pub(super) fn release(group: &mut Group<'_>, task: &Position, release: Release<'_>) -> Result<(), Failure> {
    const STEP: &str = "release a task";
    let (lost, trouble) = match release {
        Release::GivenBack => (task.lost, None),
        Release::Lost(trouble) => (task.lost.saturating_add(1), Some(trouble)),
    };
    if let Some(trouble) = trouble
        && lost >= group.max_attempts()
    {
        return give_up(group, task, &format!("lost {lost} times: {trouble}"));
    }
    group
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, lost = ?3,
                              trouble = coalesce(?4, trouble)
             WHERE seq = ?1",
            STEP,
        )?
        .execute((task.seq, Column(Status::Retrying), lost, trouble))
        .during(STEP)?;
    group.let_go();
    group.moved(task, Status::Retrying, None);
    group.waits();
    Ok(())
}

/// Ends a task that the platform cannot run.
pub(super) fn give_up(group: &mut Group<'_>, task: &Position, trouble: &str) -> Result<(), Failure> {
    const STEP: &str = "give up a task";
    group
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, lost = ?6, finish_time = ?3,
                              finish_age = ?4, trouble = ?5
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            task.seq,
            Column(Status::SystemError),
            Column(group.time_of(task)),
            Column(group.age()),
            trouble,
            task.lost.saturating_add(1),
        ))
        .during(STEP)?;
    if task.executor.is_some() {
        group.let_go();
    }
    group.moved(task, Status::SystemError, None);
    Ok(())
}

/// Commits the result of the attempt that is out.
pub(super) fn finish(
    group: &mut Group<'_>,
    task: &Position,
    status: Status,
    result: &[u8],
    by: &ExecutorName,
) -> Result<(), Failure> {
    const STEP: &str = "finish a task";
    group
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, report_time = ?3, finish_time = ?3,
                              finish_age = ?4, trouble = NULL
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            task.seq,
            Column(status),
            Column(group.time_of(task)),
            Column(group.age()),
        ))
        .during(STEP)?;
    group
        .statement(
            "INSERT OR REPLACE INTO results (seq, result) VALUES (?1, ?2)",
            STEP,
        )?
        .execute((task.seq, result))
        .during(STEP)?;
    group.let_go();
    group.moved(task, status, Some(by));
    Ok(())
}
