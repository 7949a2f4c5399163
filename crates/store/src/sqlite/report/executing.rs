//! Step 3: recording how far the tasks in hand have come.

use std::collections::{HashMap, HashSet};

use model::{Answer, Report, Status};

use crate::sqlite::column::Column;
use crate::sqlite::failure::{During, Failure};
use crate::sqlite::group::Group;
use crate::sqlite::rows::{self, Position};

/// Writes down the statuses that changed, and answers everything that the session holds now.
/// What the executor has but the session does not hold is to be killed.
pub(super) fn record(
    group: &mut Group<'_>,
    report: &Report,
    answer: &mut Answer,
) -> Result<Vec<Position>, Failure> {
    let mut held = rows::held(
        group.connection(),
        &report.executor,
        Some(report.session),
        group.set_aside(),
    )?;
    let settled: HashSet<_> = answer.delete.iter().copied().collect();
    let mut by_id: HashMap<_, _> = held.iter_mut().map(|task| (task.id, task)).collect();
    for executing in &report.executing {
        let handout = executing.handout;
        let found = by_id.get_mut(&handout.task);
        match (
            found.filter(|task| task.is_out_as(handout, &report.executor)),
            executing.status,
        ) {
            (Some(task), Some(status)) => record_if_changed(group, report, task, status)?,
            (Some(_), None) => {}
            // One that also completed in this report is on the list already.
            (None, _) if settled.contains(&handout) => {}
            (None, _) => answer.delete.push(handout),
        }
    }
    Ok(held)
}

/// Only steps have a status to record: an end comes with its result, in `complete`.
fn record_if_changed(
    group: &mut Group<'_>,
    report: &Report,
    task: &mut Position,
    status: Status,
) -> Result<(), Failure> {
    const STEP: &str = "record a status";
    if !matches!(status, Status::Compiling | Status::Running) || !task.status.may_become(status) {
        return Ok(());
    }
    group
        .statement(
            "UPDATE tasks SET status = ?2, report_time = ?3 WHERE seq = ?1",
            STEP,
        )?
        .execute((task.seq, Column(status), Column(group.time_of(task))))
        .during(STEP)?;
    group.moved(task, status, Some(&report.executor));
    task.status = status;
    Ok(())
}
