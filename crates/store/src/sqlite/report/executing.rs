//! Step 3 of a report: records the statuses of executing attempts.

use std::collections::{HashMap, HashSet};

use model::{Report, ReportInstructions, TaskState, TaskStatus, is_new_step_status};

use crate::sqlite::failure::{SqliteFailure, StepContext};
use crate::sqlite::group_transaction::GroupTransaction;
use crate::sqlite::rows;
use crate::sqlite::sql_value::SqlValue;

/// Records changed statuses and returns all tasks that the executor holds now, also those of an earlier session. Attempts
/// that the executor lists but does not hold go on the `delete` list: the executor kills them.
pub(super) fn record(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    instructions: &mut ReportInstructions,
) -> Result<Vec<TaskState>, SqliteFailure> {
    let mut held = rows::held(
        transaction.connection(),
        &report.executor,
        transaction.unreadable_rows(),
    )?;
    let deleted: HashSet<_> = instructions.delete.iter().copied().collect();
    let mut by_id: HashMap<_, _> = held.iter_mut().map(|task| (task.id, task)).collect();
    for executing in &report.executing {
        let attempt_id = executing.attempt_id;
        let found = by_id.get_mut(&attempt_id.task);
        match (
            found.filter(|task| task.is_held_as(attempt_id, &report.executor)),
            executing.status,
        ) {
            (Some(task), Some(status)) => record_if_changed(transaction, report, task, status)?,
            (Some(_), None) => {}
            // An attempt that the report lists as complete too is on the list already.
            (None, _) if deleted.contains(&attempt_id) => {}
            (None, _) => instructions.delete.push(attempt_id),
        }
    }
    Ok(held)
}

fn record_if_changed(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    task: &mut TaskState,
    status: TaskStatus,
) -> Result<(), SqliteFailure> {
    const STEP: &str = "record a status";
    if !is_new_step_status(task.status, status) {
        return Ok(());
    }
    transaction
        .statement(
            "UPDATE tasks SET status = ?2, report_time = ?3 WHERE seq = ?1",
            STEP,
        )?
        .execute((
            SqlValue(task.add_time),
            SqlValue(status),
            SqlValue(transaction.change_time(task)),
        ))
        .during(STEP)?;
    transaction.record_status_change(task, status, Some(&report.executor));
    task.status = status;
    Ok(())
}
