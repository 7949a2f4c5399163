//! Step 2 of a report: commits the ends of completed attempts, and discards late results.

use model::{EndTransition, Report, TaskState};

use super::{EncodedSqliteReport, ReportProgress};
use crate::FinishedAttempt;
use crate::document::EncodedAttempt;
use crate::sqlite::failure::SqliteFailure;
use crate::sqlite::group_transaction::GroupTransaction;
use crate::sqlite::transition::{CommittedResult, Release};
use crate::sqlite::{blobs, rows, transition};

/// Commits the end of each attempt that the executor still holds. The result of any other attempt is late and is
/// discarded. Both go on the answer's `delete` list: the executor may delete them. A result whose blobs are not all in the
/// store goes on the list `upload_again`, and an end of a form that this program does not know on neither.
pub(super) fn apply(
    transaction: &mut GroupTransaction<'_>,
    encoded: &EncodedSqliteReport,
    progress: &mut ReportProgress,
) -> Result<(), SqliteFailure> {
    let report = &encoded.report;
    for attempt in &encoded.completed {
        let attempt_id = &attempt.attempt_id;
        if !attempt.form.is_known() {
            continue;
        }
        let found = match rows::task_state(transaction.connection(), attempt_id.task) {
            // An unreadable task cannot take the result. The report continues without it.
            Err(SqliteFailure::Refused(error)) => {
                transaction
                    .unreadable_rows()
                    .record(format_args!("task {}", attempt_id.task), error);
                None
            }
            found => found?,
        };
        if let Some(task) = found.filter(|task| task.is_held_as(*attempt_id, &report.executor)) {
            if !task.form.is_known() {
                continue;
            }
            if blobs::first_missing(transaction, &attempt.blobs)?.is_some() {
                progress.instructions.upload_again.push(*attempt_id);
                continue;
            }
            end_attempt(transaction, report, (&task, attempt), progress)?;
        }
        progress.instructions.delete.push(*attempt_id);
    }
    Ok(())
}

fn end_attempt(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    (task, attempt): (&TaskState, &EncodedAttempt<Vec<u8>>),
    progress: &mut ReportProgress,
) -> Result<(), SqliteFailure> {
    match attempt.end.transition(task, &report.executor) {
        EndTransition::Finish {
            status,
            reason,
            result,
        } => {
            let by = &report.executor;
            let committed = CommittedResult {
                status,
                reason,
                result,
                by,
            };
            transition::finish(transaction, task, committed)?;
            blobs::refer(transaction, task.add_time, &attempt.blobs)?;
            let finish_time = transaction.change_time(task);
            progress.finished.push(FinishedAttempt {
                task: task.id,
                attempt: task.attempt,
                status,
                start_time: task.start_time.unwrap_or(finish_time),
                finish_time,
            });
            Ok(())
        }
        EndTransition::ReleaseAsLost(trouble) => {
            transition::release(transaction, task, Release::lost(&trouble))
        }
        EndTransition::ReleaseAsPlatformFailure(trouble) => {
            transition::release(transaction, task, Release::platform_failure(trouble))
        }
    }
}
