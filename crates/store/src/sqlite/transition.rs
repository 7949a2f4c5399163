//! Transitions of one task that several operations share.
//!
//! The caller has checked that the transition is allowed. The transaction keeps the task unchanged in between.

use model::{ExecutorName, FailedAttempts, ReleaseDecision, ReleaseReason, TaskState, TaskStatus};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::sql_value::SqlValue;

/// Puts a held task back into the queue, or ends it if it has used up its attempts.
pub(super) fn release(
    transaction: &mut GroupTransaction<'_>,
    task: &TaskState,
    reason: ReleaseReason<'_>,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "release a task";
    let (failed_attempts, trouble) = match task.failed_attempts.after(reason, transaction.max_attempts()) {
        ReleaseDecision::Retry { losses, trouble } => (losses, trouble),
        ReleaseDecision::GiveUp { losses, trouble } => return give_up(transaction, task, losses, &trouble),
    };
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, lost = ?3,
                              platform_losses = ?4, trouble = coalesce(?5, trouble)
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(TaskStatus::Retrying),
            failed_attempts.lost,
            failed_attempts.platform,
            trouble,
        ))
        .during(STEP)?;
    transaction.record_no_longer_held();
    transaction.record_status_change(task, TaskStatus::Retrying, None);
    transaction.record_queued();
    Ok(())
}

/// Ends a task as `system_error`.
pub(super) fn give_up(
    transaction: &mut GroupTransaction<'_>,
    task: &TaskState,
    failed_attempts: FailedAttempts,
    trouble: &str,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "give up a task";
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, finish_time = ?3,
                              finish_age = ?4, trouble = ?5, lost = ?6, platform_losses = ?7
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(TaskStatus::SystemError),
            SqlValue(transaction.change_time(task)),
            SqlValue(transaction.age()),
            trouble,
            failed_attempts.lost,
            failed_attempts.platform,
        ))
        .during(STEP)?;
    if task.executor.is_some() {
        transaction.record_no_longer_held();
    }
    transaction.record_status_change(task, TaskStatus::SystemError, None);
    Ok(())
}

/// Commits the result of the current attempt.
pub(super) fn finish(
    transaction: &mut GroupTransaction<'_>,
    task: &TaskState,
    status: TaskStatus,
    result: &[u8],
    by: &ExecutorName,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "finish a task";
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, report_time = ?3, finish_time = ?3,
                              finish_age = ?4, trouble = NULL
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(status),
            SqlValue(transaction.change_time(task)),
            SqlValue(transaction.age()),
        ))
        .during(STEP)?;
    transaction
        .statement(
            "INSERT OR REPLACE INTO results (seq, result) VALUES (?1, ?2)",
            STEP,
        )?
        .execute((SqlValue(task.add_time), result))
        .during(STEP)?;
    transaction.record_no_longer_held();
    transaction.record_status_change(task, status, Some(by));
    Ok(())
}
