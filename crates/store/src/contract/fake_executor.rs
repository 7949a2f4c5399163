//! An executor for tests. It follows the protocol and reports exactly what the test tells it to.

use std::sync::Arc;

use model::{
    Assignment, AttemptEnd, AttemptId, Capacity, CompletedAttempt, ExecutingAttempt, ExecutorInfo,
    ExecutorName, ExecutorTools, Report, ReportAnswer, ReportInstructions, ReportIntent, ReportSeq,
    SessionId, TaskForm, TaskId, TaskResult, TaskStatus,
};

use crate::{HandledReport, ObservedSession, TaskStore};

/// The capacity that a fake executor reports, unless the test changes it.
pub const CAPACITY: Capacity = Capacity {
    memory: 3 << 30,
    processes: 700,
    open_files: u64::MAX >> 1,
};

/// An executor's session that a store test controls: it sends to the store exactly the reports that the test asks for.
pub struct FakeExecutor {
    store: Arc<dyn TaskStore>,
    pub name: ExecutorName,
    pub session: SessionId,
    pub seq: ReportSeq,
    pub acked: ReportSeq,
    pub running: Vec<ExecutingAttempt>,
    pub capacity: Option<Capacity>,
    pub newest_form: TaskForm,
    /// Reported by the next report, and not again.
    pub tools: Option<Arc<ExecutorTools>>,
}

impl FakeExecutor {
    pub fn new(store: &Arc<dyn TaskStore>, name: &str) -> FakeExecutor {
        FakeExecutor {
            store: store.clone(),
            name: ExecutorName::new(name).unwrap(),
            session: SessionId(uuid::Uuid::now_v7()),
            seq: ReportSeq(0),
            acked: ReportSeq(0),
            running: vec![],
            capacity: Some(CAPACITY),
            newest_form: TaskForm::NEWEST,
            tools: None,
        }
    }

    /// The next report, without changes.
    pub fn next_report(&mut self) -> Report {
        self.seq = self.seq.next();
        Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked: self.acked,
            succeeds: None,
            complete: vec![],
            executing: self.running.clone(),
            vacant: 0,
            executor_info: ExecutorInfo {
                slots: 4,
                host: format!("host-of-{}", self.name),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: self.capacity,
                newest_form: self.newest_form,
                tools: self.tools.take(),
                load: None,
            },
            intent: ReportIntent::Stay,
        }
    }

    /// Sends a report and follows the instructions of its answer.
    pub async fn send(&mut self, report: Report) -> HandledReport {
        let seq = report.seq;
        let reported = self.store.report(report).await.unwrap();
        let ReportAnswer::Done(answer) = &reported.answer else {
            panic!("the report was refused: {:?}", reported.answer);
        };
        self.acked = seq;
        self.running
            .retain(|running| !answer.delete.contains(&running.attempt_id));
        self.running
            .extend(answer.assign.iter().map(|assignment| ExecutingAttempt {
                attempt_id: assignment.attempt_id,
                status: None,
            }));
        reported
    }

    /// Sends a report that asks for up to `vacant` tasks.
    pub async fn claim(&mut self, vacant: u32) -> Vec<Assignment> {
        let report = Report {
            vacant,
            ..self.next_report()
        };
        instructions(self.send(report).await).assign
    }

    /// Claims the first task of the queue, which must not be empty.
    pub async fn claim_one(&mut self) -> AttemptId {
        let assigned = self.claim(1).await;
        assert_eq!(assigned.len(), 1, "one task was waiting");
        assigned[0].attempt_id
    }

    pub async fn end_attempt(&mut self, attempt_id: AttemptId, end: AttemptEnd) -> HandledReport {
        self.running.retain(|running| running.attempt_id != attempt_id);
        let report = Report {
            complete: vec![completed(attempt_id, end)],
            ..self.next_report()
        };
        self.send(report).await
    }

    pub async fn finish(&mut self, attempt_id: AttemptId, result: TaskResult) -> HandledReport {
        self.end_attempt(attempt_id, AttemptEnd::Result(result)).await
    }

    /// Reports a status of the task.
    pub async fn report_status(&mut self, task: TaskId, status: TaskStatus) -> ReportInstructions {
        for running in &mut self.running {
            if running.attempt_id.task == task {
                running.status = Some(status);
            }
        }
        let report = self.next_report();
        instructions(self.send(report).await)
    }

    /// This session as the leader observes it.
    pub fn observed(&self) -> ObservedSession {
        ObservedSession {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
        }
    }

    /// Expires this session, as the leader does with a silent executor, and switches to a new session of the same name.
    pub async fn expire(&mut self) {
        let expired = self.store.expire(self.observed()).await.unwrap();
        assert!(expired.is_some(), "the session was live");
        *self = FakeExecutor::new(&self.store, self.name.as_str());
    }
}

/// The end of an attempt of a task that has the current form.
pub fn completed(attempt_id: AttemptId, end: AttemptEnd) -> CompletedAttempt {
    let form = TaskForm::CURRENT;
    CompletedAttempt {
        attempt_id,
        form,
        end,
    }
}

/// The instructions of the answer; panics if the report was refused.
pub fn instructions(reported: HandledReport) -> ReportInstructions {
    match reported.answer {
        ReportAnswer::Done(answer) => answer,
        other => panic!("the report was refused: {other:?}"),
    }
}
