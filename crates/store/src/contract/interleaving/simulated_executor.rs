//! A simulated executor that follows the protocol: it keeps each result until an answer tells it to delete the attempt.

use std::sync::Arc;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, CompletedAttempt, ExecutingAttempt, ExecutorInfo, ExecutorName,
    ExecutorTools, Report, ReportAnswer, ReportIntent, ReportSeq, SessionId, TaskForm, TaskStatus,
};

use super::{AttemptAction, SpoolState};
use crate::contract::fixtures::{attempt_result, run_failure};

/// The state of one simulated executor in a random history of the store test: its session, attempts and spool.
pub(super) struct SimulatedExecutor {
    pub(super) name: ExecutorName,
    pub(super) session: SessionId,
    succeeds: Option<SessionId>,
    pub(super) seq: ReportSeq,
    acked: ReportSeq,
    running: Vec<ExecutingAttempt>,
    spool: Vec<CompletedAttempt>,
    tools: Arc<ExecutorTools>,
    /// Whether a report with the tools was answered in this session.
    tools_reported: bool,
    /// All reports that it has sent, including lost ones.
    pub(super) sent: Vec<Report>,
}

impl SimulatedExecutor {
    pub(super) fn new(index: usize) -> SimulatedExecutor {
        SimulatedExecutor {
            name: ExecutorName::new(format!("e{index}")).unwrap(),
            session: SessionId(uuid::Uuid::now_v7()),
            succeeds: None,
            seq: ReportSeq(0),
            acked: ReportSeq(0),
            running: vec![],
            spool: vec![],
            tools: Arc::default(),
            tools_reported: false,
            sent: vec![],
        }
    }

    pub(super) fn change_tools(&mut self, tools: Arc<ExecutorTools>) {
        (self.tools, self.tools_reported) = (tools, false);
    }

    pub(super) fn perform(&mut self, actions: &[AttemptAction]) {
        let mut left = vec![];
        for (index, mut running) in std::mem::take(&mut self.running).into_iter().enumerate() {
            match actions[index % actions.len()] {
                AttemptAction::Nothing => left.push(running),
                AttemptAction::Compile => {
                    running.status.get_or_insert(TaskStatus::Compiling);
                    left.push(running);
                }
                AttemptAction::Run => {
                    running.status = Some(TaskStatus::Running);
                    left.push(running);
                }
                AttemptAction::Succeed => self.complete(
                    running.attempt_id,
                    AttemptEnd::Result(marked_by(&self.name, running.attempt_id)),
                ),
                AttemptAction::Fail => self.complete(running.attempt_id, AttemptEnd::Result(run_failure())),
                AttemptAction::Break => {
                    self.complete(running.attempt_id, AttemptEnd::Broken("broken".into()))
                }
                AttemptAction::PlatformFailure => {
                    self.complete(
                        running.attempt_id,
                        AttemptEnd::PlatformFailure("no warden".into()),
                    );
                }
                AttemptAction::Forget => {}
            }
        }
        self.running = left;
    }

    pub(super) fn report(&mut self, vacant: u32, intent: ReportIntent) -> Report {
        self.seq = self.seq.next();
        let report = Report {
            executor: self.name.clone(),
            session: self.session,
            seq: self.seq,
            acked: self.acked,
            succeeds: self.succeeds,
            complete: self.spool.clone(),
            executing: self.running.clone(),
            vacant,
            executor_info: ExecutorInfo {
                slots: 4,
                host: "h".into(),
                version: "1".into(),
                self_kill: std::time::Duration::from_secs(7),
                capacity: None,
                newest_form: TaskForm::NEWEST,
                tools: (!self.tools_reported).then(|| self.tools.clone()),
                load: None,
            },
            intent,
        };
        self.sent.push(report.clone());
        report
    }

    pub(super) fn receive(&mut self, report: &Report, answer: &ReportAnswer) {
        match answer {
            ReportAnswer::Done(answer) => {
                self.acked = report.seq;
                self.tools_reported |= report.executor_info.tools.as_ref() == Some(&self.tools);
                self.running
                    .retain(|running| !answer.delete.contains(&running.attempt_id));
                self.spool
                    .retain(|complete| !answer.delete.contains(&complete.attempt_id));
                let new = answer.assign.iter().map(|assignment| assignment.attempt_id);
                self.running.extend(new.map(|attempt_id| ExecutingAttempt {
                    attempt_id,
                    status: None,
                }));
                if report.intent == ReportIntent::Leave {
                    self.restart(SpoolState::Intact);
                }
            }
            ReportAnswer::Ended => self.restart(SpoolState::Intact),
            // Only the first report of a session gets this answer. The executor sends it again as the first one.
            ReportAnswer::Occupied { .. } => self.seq = ReportSeq(0),
            ReportAnswer::Stale => {}
        }
    }

    pub(super) fn restart(&mut self, spool: SpoolState) {
        let former = self.session;
        self.session = SessionId(uuid::Uuid::now_v7());
        self.seq = ReportSeq(0);
        self.acked = ReportSeq(0);
        self.tools_reported = false;
        self.running.clear();
        match spool {
            SpoolState::Intact => self.succeeds = Some(former),
            SpoolState::Lost => {
                self.succeeds = None;
                self.spool.clear();
            }
        }
    }

    fn complete(&mut self, attempt_id: AttemptId, end: AttemptEnd) {
        let form = TaskForm::CURRENT;
        self.spool.push(CompletedAttempt {
            attempt_id,
            form,
            end,
        });
    }
}

fn marked_by(name: &ExecutorName, attempt_id: AttemptId) -> model::TaskResult {
    let AttemptId {
        session,
        attempt: AttemptNumber(attempt),
        ..
    } = attempt_id;
    attempt_result(AttemptNumber(attempt), &format!("{name} {session}"))
}
