//! Steps 2 to 4 over values: what has ended, how far the rest has come, and what becomes of what is not named.

use std::collections::{HashMap, HashSet};

use model::{Handout, Release, Report, Status, TaskId, settle};

use super::claim::Claimed;
use super::{How, Sent};
use crate::Finished;
use crate::mongo::row::Position;
use crate::mongo::table::Table;

/// What the steps have come to so far.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) delete: Vec<Handout>,
    /// Handed out in an answer that never arrived: handed out again.
    pub(super) again: Vec<TaskId>,
    pub(super) handouts: Vec<Claimed>,
    pub(super) finished: Vec<Finished>,
}

impl Steps {
    /// All but the claim.
    pub(super) fn settle(&mut self, sent: &Sent, table: &mut Table) {
        let report = &sent.report;
        self.complete(sent, table);
        // Of the session that this one succeeds. Its results, and what had begun and was lost, were in this report's
        // `complete`; the rest only waited. Nobody else would ever release what an ended session holds.
        for task in table.held_otherwise(&report.executor, report.session) {
            table.release(task.id, Release::GivenBack);
        }
        self.record(report, table);
        let held = table.held(&report.executor, report.session);
        let holdings: Vec<_> = held.iter().map(|task| task.holding(report.session)).collect();
        let settled = settle(&holdings, report);
        for handout in &settled.release {
            table.release(handout.task, Release::GivenBack);
        }
        self.again = settled.assign.iter().map(|handout| handout.task).collect();
    }

    /// Gives back what is still held, also what the report names as executing: those are to be killed.
    pub(super) fn leave(&mut self, report: &Report, table: &mut Table) {
        for task in table.held(&report.executor, report.session) {
            self.delete.push(task.handout(report.session));
            table.release(task.id, Release::GivenBack);
        }
    }

    /// Committed or stale, either way it is settled: the executor may forget it.
    fn complete(&mut self, sent: &Sent, table: &mut Table) {
        let executor = &sent.report.executor;
        for ended in &sent.ended {
            let handout = ended.handout;
            let found = table.get(handout.task).cloned();
            if let Some(task) = found.filter(|task| task.is_out_as(handout, executor)) {
                self.end(sent, &task, &ended.how, table);
            }
            self.delete.push(handout);
        }
    }

    fn end(&mut self, sent: &Sent, task: &Position, how: &How, table: &mut Table) {
        let executor = &sent.report.executor;
        match how {
            How::Result { status, result } if task.status.may_become(*status) => {
                table.finish(task.id, *status, result, executor);
                let finish_time = table.time_of(task);
                self.finished.push(Finished {
                    task: task.id,
                    attempt: task.attempt,
                    status: *status,
                    start_time: task.start_time.unwrap_or(finish_time),
                    finish_time,
                });
            }
            // An executor that contradicts itself cannot be believed; the task is run again, but not for ever.
            How::Result { status, .. } => {
                let trouble = format!("executor {executor} reported {status} after {}", task.status);
                table.release(task.id, Release::Lost(&trouble));
            }
            How::Broken(trouble) => table.release(task.id, Release::Lost(trouble)),
            How::PlatformFailure(trouble) => table.release(task.id, Release::PlatformFailure(trouble)),
        }
    }

    /// Notes the statuses that changed. What the executor has but the session does not hold is to be killed.
    fn record(&mut self, report: &Report, table: &mut Table) {
        let held = table.held(&report.executor, report.session);
        let by_id: HashMap<_, _> = held.iter().map(|task| (task.id, task)).collect();
        let settled: HashSet<_> = self.delete.iter().copied().collect();
        for executing in &report.executing {
            let handout = executing.handout;
            let found = by_id.get(&handout.task);
            match (
                found.filter(|task| task.is_out_as(handout, &report.executor)),
                executing.status,
            ) {
                // Only steps have a status to record: an end comes with its result, in `complete`.
                (Some(task), Some(status @ (Status::Compiling | Status::Running)))
                    if table
                        .get(task.id)
                        .is_some_and(|task| task.status.may_become(status)) =>
                {
                    table.record(task.id, status, &report.executor);
                }
                (Some(_), _) => {}
                // One that also completed in this report is on the list already.
                (None, _) if settled.contains(&handout) => {}
                (None, _) => self.delete.push(handout),
            }
        }
    }
}
