//! Step 5 of a report: assigns attempts whose last answer was lost, then claims tasks from the queue.

use model::{Assignment, Report, TaskState};

use super::{ReportProgress, queue};
use crate::document::decode_spec;
use crate::sqlite::failure::{SqliteFailure, StepContext};
use crate::sqlite::group_transaction::GroupTransaction;
use crate::sqlite::rows;
use crate::sqlite::sql_value::SqlValue;
use crate::sqlite::transition;
use crate::{MAX_ANSWER_BYTES, MAX_ANSWER_TASKS, StoreError};

/// `reassigned` are the attempts whose last answer was lost.
pub(super) fn claim<'h>(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    vacant: u32,
    reassigned: impl Iterator<Item = &'h TaskState>,
    progress: &mut ReportProgress,
) -> Result<(), SqliteFailure> {
    let mut bytes = 0;
    for task in reassigned {
        bytes += assign(transaction, report, task, progress)?;
    }
    let reassigned = u32::try_from(progress.instructions.assign.len()).unwrap_or(u32::MAX);
    let wanted = vacant.saturating_sub(reassigned).min(MAX_ANSWER_TASKS);
    if wanted == 0 || bytes >= MAX_ANSWER_BYTES {
        return Ok(());
    }
    for mut task in queue::first_claimable(transaction, report, wanted)? {
        hold(transaction, report, &mut task)?;
        let assigned = progress.instructions.assign.len();
        bytes += assign(transaction, report, &task, progress)?;
        if progress.instructions.assign.len() > assigned {
            progress.claimed_add_times.push(task.add_time);
        }
        if bytes >= MAX_ANSWER_BYTES {
            break;
        }
    }
    Ok(())
}

/// Records that the session holds the task, as a new attempt.
fn hold(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    task: &mut TaskState,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "claim a task";
    task.attempt = task.attempt.next();
    task.executor = Some(report.executor.clone());
    transaction
        .statement(
            "UPDATE tasks SET executor = ?2, session = ?3, attempt = ?4, given = ?5, start_time = ?6 WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(&report.executor),
            SqlValue(report.session),
            SqlValue(task.attempt),
            SqlValue(report.seq),
            SqlValue(transaction.change_time(task)),
        ))
        .during(STEP)?;
    transaction.record_claimed();
    Ok(())
}

/// Adds a held task to the answer and returns the bytes of its spec. A task whose spec is unreadable ends here: in the
/// queue it would block the tasks behind it. One whose spec has a newer form returns to the queue with that form, which
/// claims skip.
fn assign(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    task: &TaskState,
    progress: &mut ReportProgress,
) -> Result<usize, SqliteFailure> {
    if !task.form.is_known() {
        // A newer node handed the task out, and hands it out again.
        return Ok(0);
    }
    let document = rows::spec(transaction.connection(), task.add_time)?;
    match decode_spec(&document) {
        Ok(spec) => progress.instructions.assign.push(Assignment {
            attempt_id: task.attempt_id(report.session),
            spec,
            platform_losses: task.failed_attempts.platform,
        }),
        Err(StoreError::NewerForm(form)) => {
            transaction.folder().newer_forms().record_if_unknown(form);
            transition::give_back_newer_form(transaction, task, form)?;
        }
        Err(error) => {
            transaction
                .unreadable_rows()
                .record(format_args!("spec of task {}", task.id), &error);
            transition::give_up(transaction, task, task.failed_attempts, &error.to_string())?;
        }
    }
    Ok(document.len())
}
