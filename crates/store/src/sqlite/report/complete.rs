//! Step 2 of a report: commits the ends of completed attempts, and discards late results.

use model::{EncodedEnd, EndTransition, ReleaseReason, Report, TaskState};

use super::{EncodedSqliteReport, ReportProgress};
use crate::FinishedAttempt;
use crate::document::EncodedAttempt;
use crate::sqlite::failure::SqliteFailure;
use crate::sqlite::group_transaction::GroupTransaction;
use crate::sqlite::{rows, transition};

/// Commits the end of each attempt that the executor still holds. The result of any other attempt is late and is
/// discarded. Both go on the answer's `delete` list: the executor may delete them.
pub(super) fn apply(
    transaction: &mut GroupTransaction<'_>,
    encoded: &EncodedSqliteReport,
    progress: &mut ReportProgress,
) -> Result<(), SqliteFailure> {
    let report = &encoded.report;
    for EncodedAttempt { attempt_id, end } in &encoded.completed {
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
            end_attempt(transaction, report, (&task, end), progress)?;
        }
        progress.instructions.delete.push(*attempt_id);
    }
    Ok(())
}

fn end_attempt(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    (task, end): (&TaskState, &EncodedEnd<Vec<u8>>),
    progress: &mut ReportProgress,
) -> Result<(), SqliteFailure> {
    match end.transition(task, &report.executor) {
        EndTransition::Finish { status, result } => {
            transition::finish(transaction, task, status, result, &report.executor)?;
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
            transition::release(transaction, task, ReleaseReason::Lost(&trouble))
        }
        EndTransition::ReleaseAsPlatformFailure(trouble) => {
            transition::release(transaction, task, ReleaseReason::PlatformFailure(trouble))
        }
    }
}
