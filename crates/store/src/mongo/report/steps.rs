//! Steps 2 to 4 of a report, decided in memory: commit results, record statuses, and release tasks that the report does
//! not name.

use std::collections::{HashMap, HashSet};

use model::{
    AttemptId, EndTransition, RecordedEnd, ReleaseReason, Report, TaskId, TaskStatus, UnixTime,
    is_new_step_status, reconcile_held_tasks,
};

use super::PreparedReport;
use super::claim::AssignedTask;
use crate::FinishedAttempt;
use crate::mongo::blobs::BlobLookup;
use crate::mongo::task_document::StoredTask;
use crate::mongo::transition_batch::{FinishedResult, TransitionBatch};

/// What the MongoDB store has decided so far, step by step, for the answer to an executor's report.
#[derive(Default)]
pub(super) struct ReportSteps {
    /// Tasks of newer forms that this program cannot read. Their attempts are left to newer judicators.
    newer: HashSet<TaskId>,
    pub(super) delete: Vec<AttemptId>,
    /// Completed attempts whose results name blobs that the store does not have.
    pub(super) upload_again: Vec<AttemptId>,
    /// Tasks whose assignment did not reach the executor, so that they are assigned again.
    pub(super) reassign: Vec<TaskId>,
    pub(super) assigned: Vec<AssignedTask>,
    pub(super) finished: Vec<FinishedAttempt>,
}

impl ReportSteps {
    pub(super) fn new(newer: HashSet<TaskId>) -> ReportSteps {
        ReportSteps {
            newer,
            ..ReportSteps::default()
        }
    }

    /// Applies steps 2 to 4. `blobs` are those of the report's blobs that the store has.
    pub(super) fn apply(
        &mut self,
        prepared: &PreparedReport,
        blobs: &BlobLookup,
        batch: &mut TransitionBatch,
    ) {
        let report = &prepared.report;
        self.complete(prepared, blobs, batch);
        self.record_statuses(report, batch);
        // A session that succeeds another one goes on to deliver the results of attempts that its reports name. The other
        // attempts of the earlier session only waited in the executor, so their release is no loss.
        let mut held = vec![];
        for StoredTask { state, .. } in batch.held(&report.executor) {
            match state.session {
                Some(session) => held.push(state.held_task(session)),
                None => batch.release(state.id, ReleaseReason::GivenBack, RecordedEnd::GivenBack),
            }
        }
        let reconciled = reconcile_held_tasks(&held, report);
        for attempt_id in &reconciled.release {
            batch.release(attempt_id.task, ReleaseReason::GivenBack, RecordedEnd::GivenBack);
        }
        self.reassign = reconciled
            .reassign
            .iter()
            .map(|attempt_id| attempt_id.task)
            .collect();
    }

    /// Releases all tasks of an executor that leaves, also those that it names as executing, which it must kill. It keeps
    /// the attempts that it names of tasks of unknown forms: they may have finished, and a newer judicator commits their
    /// results. Until then its session stays live. Returns whether the session ends.
    pub(super) fn leave(&mut self, report: &Report, batch: &mut TransitionBatch) -> bool {
        let mut ends = self.newer.is_empty();
        for StoredTask { state, .. } in batch.held(&report.executor) {
            if report.keeps_on_leaving(&state) {
                ends = false;
                continue;
            }
            self.delete
                .extend(state.session.map(|session| state.attempt_id(session)));
            batch.release(state.id, ReleaseReason::GivenBack, RecordedEnd::GivenBack);
        }
        ends
    }

    /// Commits the end of each attempt that the executor still holds. The result of any other attempt is late and is
    /// discarded. The executor may forget both. It keeps a result whose blobs are missing, and one of a form that this
    /// program does not know or whose task it cannot read for that reason, which a newer judicator commits.
    fn complete(&mut self, prepared: &PreparedReport, blobs: &BlobLookup, batch: &mut TransitionBatch) {
        let executor = &prepared.report.executor;
        for attempt in &prepared.completed {
            let attempt_id = attempt.attempt_id;
            if !attempt.form.is_known() || self.newer.contains(&attempt_id.task) {
                continue;
            }
            let task = batch.get(attempt_id.task).cloned();
            let Some(task) = task.filter(|task| task.state.is_held_as(attempt_id, executor)) else {
                self.delete.push(attempt_id);
                continue;
            };
            if !task.state.form.is_known() {
                continue;
            }
            match attempt.end.transition(&task.state, executor) {
                EndTransition::Finish { .. }
                    if !attempt.blobs.iter().all(|hash| blobs.intact.contains_key(hash)) =>
                {
                    self.upload_again.push(attempt_id);
                    continue;
                }
                EndTransition::Finish {
                    status,
                    reason,
                    result,
                } => {
                    let result = FinishedResult {
                        status,
                        reason,
                        content: result.clone(),
                        blobs: attempt.blobs.clone(),
                    };
                    let finish_time = batch.transition_time(&task);
                    batch.finish(task.state.id, result, executor);
                    self.finished.push(finished_attempt(&task, status, finish_time));
                }
                EndTransition::ReleaseAsLost(trouble) => {
                    let reason = ReleaseReason::Lost(&trouble);
                    batch.release(task.state.id, reason, RecordedEnd::Lost);
                }
                EndTransition::ReleaseAsPlatformFailure(trouble) => {
                    let reason = ReleaseReason::PlatformFailure(trouble);
                    batch.release(task.state.id, reason, RecordedEnd::Broken);
                }
            }
            self.delete.push(attempt_id);
        }
    }

    /// Records new statuses. The executor must kill attempts that its session does not hold.
    fn record_statuses(&mut self, report: &Report, batch: &mut TransitionBatch) {
        let held = batch.held(&report.executor);
        let by_id: HashMap<_, _> = held.iter().map(|task| (task.state.id, task)).collect();
        let completed: HashSet<_> = self.delete.iter().chain(&self.upload_again).copied().collect();
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
                (None, _) if self.newer.contains(&attempt_id.task) => {}
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
