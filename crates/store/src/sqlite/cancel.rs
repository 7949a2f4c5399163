//! Cancels one task or many.

use model::{Task, TaskId, TaskState, TaskStatus};

use super::failure::SqliteFailure;
use super::group_transaction::GroupTransaction;
use super::{rows, transition};
use crate::{MAX_CANCELLED_AT_ONCE, StoreError};

pub(super) fn cancel(
    transaction: &mut GroupTransaction<'_>,
    id: TaskId,
) -> Result<Option<Task>, SqliteFailure> {
    let Some(task) = rows::task_state(transaction.connection(), id)? else {
        return Ok(None);
    };
    if task.status.may_become(TaskStatus::Cancelled) {
        if !task.form.is_known() {
            return Err(SqliteFailure::Refused(StoreError::NewerForm(task.form)));
        }
        transition::cancel(transaction, &task)?;
    }
    rows::task(transaction.connection(), id, transaction.unreadable_rows())
}

/// Tasks that are unreadable or of an unknown form are left alone.
pub(super) fn cancel_many(
    transaction: &mut GroupTransaction<'_>,
    ids: &[TaskId],
) -> Result<u64, SqliteFailure> {
    let mut cancelled = 0;
    for id in ids {
        let found = match rows::task_state(transaction.connection(), *id) {
            Err(SqliteFailure::Refused(error)) => {
                transaction
                    .unreadable_rows()
                    .record(format_args!("task {id}"), error);
                None
            }
            found => found?,
        };
        let may_be_cancelled =
            |task: &TaskState| task.form.is_known() && task.status.may_become(TaskStatus::Cancelled);
        if let Some(task) = found.filter(may_be_cancelled) {
            transition::cancel(transaction, &task)?;
            cancelled += 1;
        }
        if cancelled == MAX_CANCELLED_AT_ONCE as u64 {
            break;
        }
    }
    Ok(cancelled)
}
