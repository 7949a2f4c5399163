//! A reference implementation of the store's rules: simple, in memory, and slow.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, ExecutorName, ExecutorTools, GroupName, HeldTask,
    MAX_PLATFORM_FAILURES, OutcomeReason, Report, ReportAnswer, ReportInstructions, ReportIntent, ReportSeq,
    SessionCheck, SessionId, StoredSession, TaskId, TaskResult, TaskSpec, TaskStatus, ToolRequirement,
    UnixTime, check_session, reconcile_held_tasks,
};

use crate::ObservedSession;
use crate::contract::MAX_ATTEMPTS;

/// The simplest in-memory task store: random histories compare the answers of the real stores with its answers.
#[derive(Default)]
pub(super) struct ReferenceStore {
    /// In the order in which they were added.
    pub(super) tasks: Vec<ReferenceTask>,
    sessions: BTreeMap<ExecutorName, StoredSession>,
    tools: BTreeMap<ExecutorName, Arc<ExecutorTools>>,
}

/// A task in the [`ReferenceStore`] of the random store tests.
#[derive(Clone, Debug)]
pub(super) struct ReferenceTask {
    pub(super) id: TaskId,
    priority: i32,
    requires: ToolRequirement,
    pub(super) status: TaskStatus,
    pub(super) holder: Option<(ExecutorName, SessionId)>,
    assigned_in: ReportSeq,
    pub(super) attempt: AttemptNumber,
    lost: u32,
    pub(super) platform_losses: u32,
    pub(super) result: Option<TaskResult>,
    pub(super) group: Option<GroupName>,
    pub(super) retried: bool,
}

/// Why the [`ReferenceStore`] releases a task from its executor, in the random store tests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceRelease {
    GivenBack,
    Lost,
    PlatformFailed,
}

/// The answer to a report that the [`ReferenceStore`] predicts; of assigned tasks it knows only the attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    Done {
        delete: Vec<AttemptId>,
        assign: Vec<AttemptId>,
    },
    Refused(ReportAnswer),
}

impl ReferenceStore {
    pub(super) fn add(&mut self, id: TaskId, spec: &TaskSpec) {
        if let Some(repeated) = spec.retry_of {
            let tasks = self.tasks.iter_mut().filter(|task| task.id == repeated);
            tasks.for_each(|task| task.retried = true);
        }
        self.tasks.push(ReferenceTask {
            id,
            priority: spec.priority,
            requires: ToolRequirement::of(spec),
            group: spec.group.clone(),
            retried: false,
            status: TaskStatus::Pending,
            holder: None,
            assigned_in: ReportSeq(0),
            attempt: AttemptNumber(0),
            lost: 0,
            platform_losses: 0,
            result: None,
        });
    }

    /// The number of tasks that the group counts, by status, and of its failed ones by reason.
    pub(super) fn count_group(
        &self,
        group: &GroupName,
    ) -> (BTreeMap<TaskStatus, u64>, BTreeMap<OutcomeReason, u64>) {
        let (mut counts, mut reasons) = (BTreeMap::new(), BTreeMap::new());
        let counted = self
            .tasks
            .iter()
            .filter(|task| task.group.as_ref() == Some(group) && !task.retried);
        for task in counted {
            *counts.entry(task.status).or_default() += 1;
            let reason = task.result.as_ref().and_then(TaskResult::reason);
            if let Some(reason) = reason.filter(|_| task.status != TaskStatus::Success) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        (counts, reasons)
    }

    pub(super) fn cancel(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        if !task.status.is_done() {
            task.status = TaskStatus::Cancelled;
            task.holder = None;
        }
    }

    pub(super) fn expire(&mut self, observed: &ObservedSession) -> Option<usize> {
        let known = self.sessions.get_mut(&observed.executor)?;
        if !(known.live && known.session == observed.session && known.seq == observed.seq) {
            return None;
        }
        known.live = false;
        Some(self.release_all(&observed.executor, observed.session, ReferenceRelease::Lost))
    }

    pub(super) fn report(&mut self, report: &Report) -> ExpectedAnswer {
        let known = self.sessions.get(&report.executor).cloned();
        let judged = check_session(known.as_ref(), report);
        if let SessionCheck::Refused(answer) = judged {
            return ExpectedAnswer::Refused(answer);
        }
        let now = StoredSession {
            session: report.session,
            seq: report.seq,
            live: report.intent == ReportIntent::Stay,
            host: report.executor_info.host.clone(),
            since: UnixTime(0),
        };
        self.sessions.insert(report.executor.clone(), now);
        if judged == SessionCheck::Opens {
            self.tools.remove(&report.executor);
        }
        if let Some(tools) = &report.executor_info.tools {
            self.tools.insert(report.executor.clone(), tools.clone());
        }
        let mut delete = self.complete(report);
        if let Some(former) = known.filter(|known| judged == SessionCheck::Opens && known.live) {
            self.release_all(&report.executor, former.session, ReferenceRelease::GivenBack);
        }
        self.record(report, &mut delete);
        let reconciled = reconcile_held_tasks(&self.held_tasks(report), report);
        for attempt_id in &reconciled.release {
            self.find(*attempt_id, &report.executor)
                .unwrap()
                .release(ReferenceRelease::GivenBack);
        }
        let mut assign = reconciled.reassign;
        match report.intent {
            ReportIntent::Stay => self.claim(report, &mut assign),
            ReportIntent::Leave => {
                for held in self.held_tasks(report) {
                    delete.push(held.attempt_id);
                    self.find(held.attempt_id, &report.executor)
                        .unwrap()
                        .release(ReferenceRelease::GivenBack);
                }
            }
        }
        ExpectedAnswer::Done { delete, assign }
    }

    fn complete(&mut self, report: &Report) -> Vec<AttemptId> {
        for complete in &report.complete {
            let Some(task) = self.find(complete.attempt_id, &report.executor) else {
                continue;
            };
            match &complete.end {
                AttemptEnd::Result(result) if task.status.may_become(result.status()) => {
                    task.status = result.status();
                    task.result = Some(result.clone());
                    task.holder = None;
                }
                AttemptEnd::Result(_) | AttemptEnd::Broken(_) => task.release(ReferenceRelease::Lost),
                AttemptEnd::PlatformFailure(_) => task.release(ReferenceRelease::PlatformFailed),
            }
        }
        report
            .complete
            .iter()
            .map(|complete| complete.attempt_id)
            .collect()
    }

    fn record(&mut self, report: &Report, delete: &mut Vec<AttemptId>) {
        for executing in &report.executing {
            match self.find(executing.attempt_id, &report.executor) {
                Some(task) if executing.attempt_id.session == report.session => {
                    let next = executing.status.filter(|next| task.status.may_become(*next));
                    task.status = next.unwrap_or(task.status);
                }
                _ if delete.contains(&executing.attempt_id) => {}
                _ => delete.push(executing.attempt_id),
            }
        }
    }

    fn claim(&mut self, report: &Report, assign: &mut Vec<AttemptId>) {
        let tools = self.tools.get(&report.executor).cloned().unwrap_or_default();
        while assign.len() < report.vacant as usize {
            let waiting = self
                .tasks
                .iter_mut()
                .filter(|task| task.holder.is_none() && !task.status.is_done())
                .filter(|task| tools.satisfy(&task.requires));
            // `max_by_key` returns the last maximum, which in reverse order is the oldest task.
            let Some(task) = waiting.rev().max_by_key(|task| task.priority) else {
                break;
            };
            task.holder = Some((report.executor.clone(), report.session));
            task.assigned_in = report.seq;
            task.attempt = task.attempt.next();
            assign.push(AttemptId {
                task: task.id,
                session: report.session,
                attempt: task.attempt,
            });
        }
    }

    fn held_tasks(&self, report: &Report) -> Vec<HeldTask> {
        let holder = Some((report.executor.clone(), report.session));
        let held = self.tasks.iter().filter(|task| task.holder == holder);
        held.map(|task| HeldTask {
            attempt_id: AttemptId {
                task: task.id,
                session: report.session,
                attempt: task.attempt,
            },
            assigned_in: task.assigned_in,
        })
        .collect()
    }

    fn release_all(
        &mut self,
        executor: &ExecutorName,
        session: SessionId,
        reason: ReferenceRelease,
    ) -> usize {
        let holder = Some((executor.clone(), session));
        let held = self.tasks.iter_mut().filter(|task| task.holder == holder);
        held.map(|task| task.release(reason)).count()
    }

    fn find(&mut self, attempt_id: AttemptId, executor: &ExecutorName) -> Option<&mut ReferenceTask> {
        let holder = Some((executor.clone(), attempt_id.session));
        let mut tasks = self.tasks.iter_mut();
        tasks.find(|task| {
            task.id == attempt_id.task && task.attempt == attempt_id.attempt && task.holder == holder
        })
    }
}

impl ReferenceTask {
    fn release(&mut self, reason: ReferenceRelease) {
        self.holder = None;
        self.lost += u32::from(reason == ReferenceRelease::Lost);
        self.platform_losses += u32::from(reason == ReferenceRelease::PlatformFailed);
        self.status = if self.lost == MAX_ATTEMPTS || self.platform_losses == MAX_PLATFORM_FAILURES {
            TaskStatus::SystemError
        } else {
            TaskStatus::Retrying
        };
    }
}

impl ExpectedAnswer {
    pub(super) fn of(answer: &ReportAnswer) -> ExpectedAnswer {
        match answer {
            ReportAnswer::Done(ReportInstructions {
                delete,
                upload_again,
                assign,
                drain: None,
            }) if upload_again.is_empty() => ExpectedAnswer::Done {
                delete: delete.clone(),
                assign: assign.iter().map(|assignment| assignment.attempt_id).collect(),
            },
            // The reference store does not record when a session began.
            ReportAnswer::Occupied { host, .. } => ExpectedAnswer::Refused(ReportAnswer::Occupied {
                host: host.clone(),
                since: UnixTime(0),
            }),
            other => ExpectedAnswer::Refused(other.clone()),
        }
    }
}
