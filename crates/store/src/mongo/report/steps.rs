//! Steps 2 to 4 of a report, decided in memory: commit results, record statuses, and release tasks that the report does
//! not name.

use std::collections::{HashMap, HashSet};

use model::{
    AttemptId, EndTransition, ReleaseReason, Report, TaskId, TaskStatus, UnixTime, is_new_step_status,
    reconcile_held_tasks,
};

use super::PreparedReport;
use super::claim::AssignedTask;
use crate::FinishedAttempt;
use crate::mongo::task_document::StoredTask;
use crate::mongo::transition_batch::TransitionBatch;

/// What the MongoDB store has decided so far, step by step, for the answer to an executor's report.
#[derive(Default)]
pub(super) struct ReportSteps {
    pub(super) delete: Vec<AttemptId>,
    /// Tasks whose assignment did not reach the executor, so that they are assigned again.
    pub(super) reassign: Vec<TaskId>,
    pub(super) assigned: Vec<AssignedTask>,
    pub(super) finished: Vec<FinishedAttempt>,
}

impl ReportSteps {
    /// Applies steps 2 to 4.
    pub(super) fn apply(&mut self, prepared: &PreparedReport, batch: &mut TransitionBatch) {
        let report = &prepared.report;
        self.complete(prepared, batch);
        // Tasks of the session that this one succeeds. Attempts that it had begun are in this report's `complete`; the
        // other tasks only waited there. No other operation releases the tasks of an ended session.
        for task in batch.held_in_other_sessions(&report.executor, report.session) {
            batch.release(task.state.id, ReleaseReason::GivenBack);
        }
        self.record_statuses(report, batch);
        let held: Vec<_> = batch
            .held(&report.executor, report.session)
            .iter()
            .map(|task| task.state.held_task(report.session))
            .collect();
        let reconciled = reconcile_held_tasks(&held, report);
        for attempt_id in &reconciled.release {
            batch.release(attempt_id.task, ReleaseReason::GivenBack);
        }
        self.reassign = reconciled
            .reassign
            .iter()
            .map(|attempt_id| attempt_id.task)
            .collect();
    }

    /// Releases all tasks of a session that leaves, also those that it names as executing, which it must kill.
    pub(super) fn leave(&mut self, report: &Report, batch: &mut TransitionBatch) {
        for task in batch.held(&report.executor, report.session) {
            self.delete.push(task.state.attempt_id(report.session));
            batch.release(task.state.id, ReleaseReason::GivenBack);
        }
    }

    /// Commits the end of each attempt that the executor still holds. The result of any other attempt is late and is
    /// discarded. The executor may forget both.
    fn complete(&mut self, prepared: &PreparedReport, batch: &mut TransitionBatch) {
        let executor = &prepared.report.executor;
        for attempt in &prepared.completed {
            let attempt_id = attempt.attempt_id;
            let task = batch.get(attempt_id.task).cloned();
            if let Some(task) = task.filter(|task| task.state.is_held_as(attempt_id, executor)) {
                match attempt.end.transition(&task.state, executor) {
                    EndTransition::Finish { status, result } => {
                        batch.finish(task.state.id, status, result, executor);
                        self.finished
                            .push(finished_attempt(&task, status, batch.transition_time(&task)));
                    }
                    EndTransition::ReleaseAsLost(trouble) => {
                        batch.release(task.state.id, ReleaseReason::Lost(&trouble));
                    }
                    EndTransition::ReleaseAsPlatformFailure(trouble) => {
                        batch.release(task.state.id, ReleaseReason::PlatformFailure(trouble));
                    }
                }
            }
            self.delete.push(attempt_id);
        }
    }

    /// Records new statuses. The executor must kill attempts that its session does not hold.
    fn record_statuses(&mut self, report: &Report, batch: &mut TransitionBatch) {
        let held = batch.held(&report.executor, report.session);
        let by_id: HashMap<_, _> = held.iter().map(|task| (task.state.id, task)).collect();
        let completed: HashSet<_> = self.delete.iter().copied().collect();
        for executing in &report.executing {
            let attempt_id = executing.attempt_id;
            let task = by_id
                .get(&attempt_id.task)
                .filter(|task| task.state.is_held_as(attempt_id, &report.executor));
            match (task, executing.status) {
                (Some(task), Some(status)) => {
                    let id = task.state.id;
                    let current = batch.get(id).map(|task| task.state.status);
                    if current.is_some_and(|current| is_new_step_status(current, status)) {
                        batch.set_step_status(id, status, &report.executor);
                    }
                }
                (Some(_), None) => {}
                // The report also lists this attempt as completed, so it is in `delete` already.
                (None, _) if completed.contains(&attempt_id) => {}
                (None, _) => self.delete.push(attempt_id),
            }
        }
    }
}

fn finished_attempt(task: &StoredTask, status: TaskStatus, finish_time: UnixTime) -> FinishedAttempt {
    FinishedAttempt {
        task: task.state.id,
        attempt: task.state.attempt,
        status,
        start_time: task.state.start_time.unwrap_or(finish_time),
        finish_time,
    }
}
