//! The changes of one task that several operations share. Who calls has checked that the task is where the
//! change begins; within a group nobody else can move it in between.

use model::{ExecutorName, Losses, Release, Released, Status};

use super::column::Column;
use super::failure::{During, Failure};
use super::group::Group;
use super::rows::Position;

/// Takes a held task back into the queue, or ends it if it was lost too often.
pub(super) fn release(group: &mut Group<'_>, task: &Position, release: Release<'_>) -> Result<(), Failure> {
    const STEP: &str = "release a task";
    let (losses, trouble) = match task.losses.after(release, group.max_attempts()) {
        Released::Retry { losses, trouble } => (losses, trouble),
        Released::GiveUp { losses, trouble } => return give_up(group, task, losses, &trouble),
    };
    group
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, lost = ?3,
                              platform_losses = ?4, trouble = coalesce(?5, trouble)
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            task.seq,
            Column(Status::Retrying),
            losses.lost,
            losses.platform,
            trouble,
        ))
        .during(STEP)?;
    group.let_go();
    group.moved(task, Status::Retrying, None);
    group.waits();
    Ok(())
}

/// Ends a task that the platform cannot run.
pub(super) fn give_up(
    group: &mut Group<'_>,
    task: &Position,
    losses: Losses,
    trouble: &str,
) -> Result<(), Failure> {
    const STEP: &str = "give up a task";
    group
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, finish_time = ?3,
                              finish_age = ?4, trouble = ?5, lost = ?6, platform_losses = ?7
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            task.seq,
            Column(Status::SystemError),
            Column(group.time_of(task)),
            Column(group.age()),
            trouble,
            losses.lost,
            losses.platform,
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
