//! Step 5 of a report: assigns tasks, first those whose earlier assignment was lost, then tasks of the queue.

use std::collections::HashMap;

use model::{AttemptId, Report, TaskId, UnixTime};

use super::queue::QueueHead;
use super::steps::ReportSteps;
use crate::MAX_ANSWER_BYTES;
use crate::mongo::bson_values::task_id;
use crate::mongo::content::StoredContent;
use crate::mongo::failure::MongoFailure;
use crate::mongo::task_document::StoredTask;
use crate::mongo::transition_batch::TransitionBatch;

/// A task that the MongoDB store assigns to an executor in the answer to the executor's report.
#[derive(Debug)]
pub(super) struct AssignedTask {
    pub(super) attempt_id: AttemptId,
    pub(super) platform_losses: u32,
    /// The add time of a task that this report claimed; none for a task that is assigned again.
    pub(super) claimed_add_time: Option<UnixTime>,
    /// The spec, if it was read with the queue.
    pub(super) spec: Option<StoredContent>,
}

pub(super) fn claim(
    report: &Report,
    wanted: usize,
    head: &QueueHead<'_>,
    steps: &mut ReportSteps,
    batch: &mut TransitionBatch,
) -> Result<(), MongoFailure> {
    let mut specs: HashMap<TaskId, &StoredContent> = HashMap::new();
    for document in &head.tasks {
        specs.insert(task_id(document.id), &document.spec);
        batch.insert(StoredTask::try_from(document)?);
    }
    let mut bytes = 0;
    for id in &steps.reassign {
        // This program cannot read the spec of a newer form. The task is released when the next report does not name it.
        if let Some(task) = batch.get(*id).filter(|task| task.state.form.is_known()) {
            bytes += task.spec_size;
            steps.assigned.push(AssignedTask {
                attempt_id: task.state.attempt_id(report.session),
                platform_losses: task.state.failed_attempts.platform,
                claimed_add_time: None,
                spec: None,
            });
        }
    }
    // Tasks that this report gave back are queued too. If the head of the queue is not complete, tasks with a higher
    // priority may be missing in it, and a given-back task must not overtake them.
    let mut queued = batch.queued();
    queued.retain(|task| !head.tasks_withheld || specs.contains_key(&task.state.id));
    queued.retain(|task| head.scope.admits(&task.state));
    let limit = wanted.saturating_sub(steps.reassign.len());
    for task in queued.into_iter().take(limit) {
        if bytes >= MAX_ANSWER_BYTES {
            break;
        }
        bytes += task.spec_size;
        batch.assign(task.state.id, report);
        if let Some(taken) = batch.get(task.state.id) {
            steps.assigned.push(AssignedTask {
                attempt_id: taken.state.attempt_id(report.session),
                platform_losses: taken.state.failed_attempts.platform,
                claimed_add_time: Some(task.state.add_time),
                spec: specs.get(&task.state.id).copied().cloned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{
        AttemptNumber, Capacity, ExecutorInfo, ExecutorName, ExecutorTools, FailedAttempts, OfferedRoot,
        ReportIntent, ReportSeq, ResourceRequest, RootName, SessionId, TaskForm, TaskState, TaskStatus,
    };

    use super::super::claim_scope::ClaimScope;
    use super::super::queue::ClaimReservations;
    use super::*;
    use crate::mongo::largest_executors::LargestExecutors;
    use crate::tools_cache::DecodedTools;

    fn report() -> Report {
        Report {
            executor: ExecutorName::new("e").unwrap(),
            session: SessionId(uuid::Uuid::now_v7()),
            seq: ReportSeq(2),
            acked: ReportSeq(1),
            succeeds: None,
            complete: vec![],
            executing: vec![],
            vacant: 1,
            executor_info: ExecutorInfo {
                slots: 1,
                host: "h".into(),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: None,
                newest_form: TaskForm::CURRENT,
                tools: None,
                load: None,
            },
            intent: ReportIntent::Stay,
        }
    }

    fn given_back() -> StoredTask {
        let state = TaskState {
            id: TaskId(uuid::Uuid::now_v7()),
            form: TaskForm::CURRENT,
            group: None,
            retried: false,
            priority: 0,
            add_time: UnixTime(1),
            status: TaskStatus::Retrying,
            executor: None,
            session: None,
            attempt: AttemptNumber(1),
            failed_attempts: FailedAttempts::default(),
            max_attempts: None,
            reason: None,
            resources: ResourceRequest::default(),
            requires: model::ToolRequirement::default(),
            assigned_in: ReportSeq(1),
            start_time: None,
            report_time: None,
        };
        StoredTask {
            state,
            finish_time: None,
            finish_age: None,
            trouble: None,
            spec_size: 0,
        }
    }

    #[test]
    fn a_task_given_back_is_left_to_a_larger_executor() {
        let reservations = ClaimReservations::default();
        let capacity = Capacity {
            memory: 8 << 30,
            processes: 1000,
            open_files: 1000,
        };
        for (needed, expected) in [(8 << 30, 1), (9 << 30, 0)] {
            let mut batch = TransitionBatch::new(UnixTime(9), 3);
            let mut task = given_back();
            task.state.resources = ResourceRequest {
                memory: needed,
                processes: 1,
            };
            batch.insert(task);
            let mut report = report();
            report.executor_info.capacity = Some(capacity);
            let mut largest = LargestExecutors::default();
            largest.record(16 << 30, Arc::default());
            let scope = ClaimScope::new(&report, Arc::default()).with_largest(largest);
            let mut head = reservations.empty_head(scope);
            head.tasks_withheld = false;
            let mut steps = ReportSteps::default();
            claim(&report, 1, &head, &mut steps, &mut batch).unwrap();
            assert_eq!(steps.assigned.len(), expected);
        }
    }

    #[test]
    fn a_task_given_back_is_left_to_an_executor_that_knows_its_form() {
        let reservations = ClaimReservations::default();
        let (old, newer) = (TaskForm::UNRECORDED, TaskForm(TaskForm::NEWEST.0 + 1));
        for (form, executor, expected) in [
            (old, old, 1),
            (TaskForm::CURRENT, old, 0),
            (TaskForm::CURRENT, TaskForm::CURRENT, 1),
            (newer, newer, 0),
        ] {
            let mut batch = TransitionBatch::new(UnixTime(9), 3);
            let mut task = given_back();
            task.state.form = form;
            batch.insert(task);
            let mut steps = ReportSteps::default();
            let mut report = report();
            report.executor_info.newest_form = executor;
            let mut head = reservations.empty_head(ClaimScope::new(&report, Arc::default()));
            head.tasks_withheld = false;
            claim(&report, 1, &head, &mut steps, &mut batch).unwrap();
            assert_eq!(steps.assigned.len(), expected, "{form} {executor}");
        }
    }

    /// It may be given back because the executor no longer has what it needs.
    #[test]
    fn a_task_given_back_is_left_to_an_executor_with_the_tools() {
        let reservations = ClaimReservations::default();
        for (key, expected) in [("lab/", 1), ("lab/c", 0)] {
            let mut batch = TransitionBatch::new(UnixTime(9), 3);
            let mut task = given_back();
            task.state.requires = key.parse().unwrap();
            batch.insert(task);
            let lab = OfferedRoot {
                name: RootName::new("lab").unwrap(),
                sha256: None,
            };
            let tools = DecodedTools::from(Arc::new(ExecutorTools::new(vec![], vec![lab])));
            let scope = ClaimScope::new(&report(), Arc::new(tools));
            let mut head = reservations.empty_head(scope);
            head.tasks_withheld = false;
            let mut steps = ReportSteps::default();
            claim(&report(), 1, &head, &mut steps, &mut batch).unwrap();
            assert_eq!(steps.assigned.len(), expected, "{key}");
        }
    }

    #[test]
    fn a_task_given_back_does_not_overtake_withheld_tasks() {
        let reservations = ClaimReservations::default();
        for (tasks_withheld, expected) in [(false, 1), (true, 0)] {
            let mut batch = TransitionBatch::new(UnixTime(9), 3);
            batch.insert(given_back());
            let mut head = reservations.empty_head(ClaimScope::new(&report(), Arc::default()));
            head.tasks_withheld = tasks_withheld;
            let mut steps = ReportSteps::default();
            claim(&report(), 1, &head, &mut steps, &mut batch).unwrap();
            assert_eq!(steps.assigned.len(), expected, "withheld: {tasks_withheld}");
        }
    }
}
