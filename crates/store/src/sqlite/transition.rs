//! Transitions of one task that several operations share.
//!
//! The caller has checked that the transition is allowed. The transaction keeps the task unchanged in between.

use model::{
    AttemptNumber, ExecutorName, FailedAttempts, OutcomeReason, RecordedEnd, ReleaseDecision, ReleaseReason,
    TaskForm, TaskState, TaskStatus,
};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows;
use super::sql_value::SqlValue;
use crate::document::encode_attempts;

/// Why the SQLite store takes an attempt away from its executor, and how the task shows that end of the attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release<'a> {
    reason: ReleaseReason<'a>,
    end: RecordedEnd,
}

impl<'a> Release<'a> {
    pub(super) const GIVEN_BACK: Release<'static> = Release {
        reason: ReleaseReason::GivenBack,
        end: RecordedEnd::GivenBack,
    };

    /// The executor died, went silent or hung.
    pub(super) fn lost(trouble: &'a str) -> Release<'a> {
        Release {
            reason: ReleaseReason::Lost(trouble),
            end: RecordedEnd::Lost,
        }
    }

    /// The executor could not run it.
    pub(super) fn platform_failure(trouble: &'a str) -> Release<'a> {
        Release {
            reason: ReleaseReason::PlatformFailure(trouble),
            end: RecordedEnd::Broken,
        }
    }
}

/// The result of a task's attempt, as the SQLite store commits it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommittedResult<'a> {
    pub(super) status: TaskStatus,
    pub(super) reason: Option<OutcomeReason>,
    pub(super) result: &'a [u8],
    pub(super) by: &'a ExecutorName,
}

/// Puts a held task back into the queue, or ends it if it has used up its attempts.
pub(super) fn release(
    transaction: &mut GroupTransaction<'_>,
    task: &TaskState,
    why: Release<'_>,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "release a task";
    record_end(transaction, task, why.end)?;
    let (failed_attempts, trouble) = match task.after_release(why.reason, transaction.max_attempts()) {
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
    transaction.record_queued(&task.requires);
    Ok(())
}

/// Returns a held task whose spec has a newer form than its row says to the queue, which then leaves it to newer nodes.
pub(super) fn give_back_newer_form(
    transaction: &mut GroupTransaction<'_>,
    task: &TaskState,
    form: TaskForm,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "give back a task of a newer form";
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, form = ?3 WHERE seq = ?1",
            STEP,
        )?
        .execute((SqlValue(task.add_time), SqlValue(TaskStatus::Retrying), form.0))
        .during(STEP)?;
    transaction.record_no_longer_held();
    transaction.record_status_change(task, TaskStatus::Retrying, None);
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
    committed: CommittedResult<'_>,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "finish a task";
    let CommittedResult {
        status,
        reason,
        result,
        by,
    } = committed;
    let ran_on = attempts_after(transaction, task, RecordedEnd::Finished)?;
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, report_time = ?3, finish_time = ?3,
                              finish_age = ?4, trouble = NULL, reason = ?5, ran_on = ?6
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(status),
            SqlValue(transaction.change_time(task)),
            SqlValue(transaction.age()),
            reason.map(SqlValue),
            ran_on,
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
    transaction.record_outcome(task, status, reason, Some(by));
    Ok(())
}

/// Ends a task as `cancelled`.
pub(super) fn cancel(transaction: &mut GroupTransaction<'_>, task: &TaskState) -> Result<(), SqliteFailure> {
    const STEP: &str = "cancel a task";
    record_end(transaction, task, RecordedEnd::Cancelled)?;
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, finish_time = ?3, finish_age = ?4
             WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(TaskStatus::Cancelled),
            SqlValue(transaction.change_time(task)),
            SqlValue(transaction.age()),
        ))
        .during(STEP)?;
    if let Some(executor) = &task.executor {
        transaction.record_no_longer_held();
        transaction.record_revoked(executor);
    }
    transaction.record_status_change(task, TaskStatus::Cancelled, None);
    Ok(())
}

/// Records the end of the task's current attempt, if that has begun.
fn record_end(
    transaction: &GroupTransaction<'_>,
    task: &TaskState,
    end: RecordedEnd,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "record the end of an attempt";
    let Some(ran_on) = attempts_after(transaction, task, end)? else {
        return Ok(());
    };
    transaction
        .statement("UPDATE tasks SET ran_on = ?2 WHERE seq = ?1", STEP)?
        .execute((SqlValue(task.add_time), ran_on))
        .map(drop)
        .during(STEP)
}

/// The encoded attempts of the task after its current one has ended; `None` if that one did not begin.
fn attempts_after(
    transaction: &GroupTransaction<'_>,
    task: &TaskState,
    end: RecordedEnd,
) -> Result<Option<Vec<u8>>, SqliteFailure> {
    let Some(ended) = task.ended_attempt(end, transaction.change_time(task)) else {
        return Ok(None);
    };
    // Most tasks finish in their first attempt, which needs no further read.
    let mut attempts = match task.attempt > AttemptNumber(1) {
        true => rows::ended_attempts(transaction.connection(), task, transaction.unreadable_rows())?,
        false => vec![],
    };
    attempts.push(ended);
    rows::keep_newest_attempts(&mut attempts);
    encode_attempts(&attempts)
        .map(Some)
        .map_err(SqliteFailure::Storage)
}
