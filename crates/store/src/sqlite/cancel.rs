//! Cancels a task.

use model::{Task, TaskId, TaskStatus};

use super::failure::{SqliteFailure, StepContext};
use super::group_transaction::GroupTransaction;
use super::rows;
use super::sql_value::SqlValue;

pub(super) fn cancel(
    transaction: &mut GroupTransaction<'_>,
    id: TaskId,
) -> Result<Option<Task>, SqliteFailure> {
    const STEP: &str = "cancel a task";
    let Some(task) = rows::task_state(transaction.connection(), id)? else {
        return Ok(None);
    };
    if task.status.may_become(TaskStatus::Cancelled) {
        transaction
            .statement(
                "UPDATE tasks SET status = ?2, executor = NULL, session = NULL, finish_time = ?3, finish_age = ?4
                 WHERE seq = ?1",
                STEP,
            )?
            .execute((
                SqlValue(task.add_time),
                SqlValue(TaskStatus::Cancelled),
                SqlValue(transaction.change_time(&task)),
                SqlValue(transaction.age()),
            ))
            .during(STEP)?;
        if let Some(executor) = &task.executor {
            transaction.record_no_longer_held();
            transaction.record_revoked(executor);
        }
        transaction.record_status_change(&task, TaskStatus::Cancelled, None);
    }
    rows::task(transaction.connection(), id, transaction.unreadable_rows())
}
