//! The store's rules once more, in the plainest form: one list of tasks, one of sessions, no haste.

use std::collections::BTreeMap;

use model::{
    Answer, Attempt, End, ExecutorName, Handout, Holding, Intent, KnownSession, MAX_PLATFORM_LOSSES, Moment,
    Report, ReportAnswer, Seq, SessionId, Standing, Status, TaskId, TaskResult, settle, standing,
};

use crate::SessionSeen;
use crate::contract::LOSSES;

#[derive(Default)]
pub(super) struct Reference {
    /// In the order of adding.
    pub(super) tasks: Vec<RefTask>,
    sessions: BTreeMap<ExecutorName, KnownSession>,
}

#[derive(Clone, Debug)]
pub(super) struct RefTask {
    pub(super) id: TaskId,
    priority: i32,
    pub(super) status: Status,
    pub(super) holder: Option<(ExecutorName, SessionId)>,
    given: Seq,
    pub(super) attempt: Attempt,
    lost: u32,
    pub(super) platform_losses: u32,
    pub(super) result: Option<TaskResult>,
}

/// Why a task loses its executor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    GivenBack,
    Lost,
    PlatformFailed,
}

/// What a report comes to; of the assigned tasks only which they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Done {
        delete: Vec<Handout>,
        assign: Vec<Handout>,
    },
    Refused(ReportAnswer),
}

impl Reference {
    pub(super) fn add(&mut self, id: TaskId, priority: i32) {
        self.tasks.push(RefTask {
            id,
            priority,
            status: Status::Pending,
            holder: None,
            given: Seq(0),
            attempt: Attempt(0),
            lost: 0,
            platform_losses: 0,
            result: None,
        });
    }

    pub(super) fn cancel(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        if !task.status.done() {
            task.status = Status::Cancelled;
            task.holder = None;
        }
    }

    pub(super) fn expire(&mut self, seen: &SessionSeen) -> Option<usize> {
        let known = self.sessions.get_mut(&seen.executor)?;
        if !(known.live && known.session == seen.session && known.seq == seen.seq) {
            return None;
        }
        known.live = false;
        Some(self.release_all(&seen.executor, seen.session, Why::Lost))
    }

    pub(super) fn report(&mut self, report: &Report) -> Judged {
        let known = self.sessions.get(&report.executor).cloned();
        let judged = standing(known.as_ref(), report);
        if let Standing::Refused(answer) = judged {
            return Judged::Refused(answer);
        }
        let now = KnownSession {
            session: report.session,
            seq: report.seq,
            live: report.intent == Intent::Stay,
            host: report.presence.host.clone(),
            since: Moment(0),
        };
        self.sessions.insert(report.executor.clone(), now);
        let mut delete = self.complete(report);
        if let Some(former) = known.filter(|known| judged == Standing::Opens && known.live) {
            self.release_all(&report.executor, former.session, Why::GivenBack);
        }
        self.record(report, &mut delete);
        let settled = settle(&self.holdings(report), report);
        for handout in &settled.release {
            self.find(*handout, &report.executor)
                .unwrap()
                .release(Why::GivenBack);
        }
        let mut assign = settled.assign;
        match report.intent {
            Intent::Stay => self.claim(report, &mut assign),
            Intent::Leave => {
                for holding in self.holdings(report) {
                    delete.push(holding.handout);
                    self.find(holding.handout, &report.executor)
                        .unwrap()
                        .release(Why::GivenBack);
                }
            }
        }
        Judged::Done { delete, assign }
    }

    fn complete(&mut self, report: &Report) -> Vec<Handout> {
        for complete in &report.complete {
            let Some(task) = self.find(complete.handout, &report.executor) else {
                continue;
            };
            match &complete.end {
                End::Result(result) if task.status.may_become(result.status()) => {
                    task.status = result.status();
                    task.result = Some(result.clone());
                    task.holder = None;
                }
                End::Result(_) | End::Broken(_) => task.release(Why::Lost),
                End::PlatformFailure(_) => task.release(Why::PlatformFailed),
            }
        }
        report.complete.iter().map(|complete| complete.handout).collect()
    }

    fn record(&mut self, report: &Report, delete: &mut Vec<Handout>) {
        for executing in &report.executing {
            match self.find(executing.handout, &report.executor) {
                Some(task) if executing.handout.session == report.session => {
                    let next = executing.status.filter(|next| task.status.may_become(*next));
                    task.status = next.unwrap_or(task.status);
                }
                _ if delete.contains(&executing.handout) => {}
                _ => delete.push(executing.handout),
            }
        }
    }

    fn claim(&mut self, report: &Report, assign: &mut Vec<Handout>) {
        while assign.len() < report.vacant as usize {
            let waiting = self
                .tasks
                .iter_mut()
                .filter(|task| task.holder.is_none() && !task.status.done());
            // Of several that are highest, the last of this order is the oldest.
            let Some(task) = waiting.rev().max_by_key(|task| task.priority) else {
                break;
            };
            task.holder = Some((report.executor.clone(), report.session));
            task.given = report.seq;
            task.attempt = task.attempt.next();
            assign.push(Handout {
                task: task.id,
                session: report.session,
                attempt: task.attempt,
            });
        }
    }

    fn holdings(&self, report: &Report) -> Vec<Holding> {
        let holder = Some((report.executor.clone(), report.session));
        let held = self.tasks.iter().filter(|task| task.holder == holder);
        held.map(|task| Holding {
            handout: Handout {
                task: task.id,
                session: report.session,
                attempt: task.attempt,
            },
            given: task.given,
        })
        .collect()
    }

    fn release_all(&mut self, executor: &ExecutorName, session: SessionId, why: Why) -> usize {
        let holder = Some((executor.clone(), session));
        let held = self.tasks.iter_mut().filter(|task| task.holder == holder);
        held.map(|task| task.release(why)).count()
    }

    fn find(&mut self, handout: Handout, executor: &ExecutorName) -> Option<&mut RefTask> {
        let holder = Some((executor.clone(), handout.session));
        let mut tasks = self.tasks.iter_mut();
        tasks.find(|task| task.id == handout.task && task.attempt == handout.attempt && task.holder == holder)
    }
}

impl RefTask {
    fn release(&mut self, why: Why) {
        self.holder = None;
        self.lost += u32::from(why == Why::Lost);
        self.platform_losses += u32::from(why == Why::PlatformFailed);
        self.status = if self.lost == LOSSES || self.platform_losses == MAX_PLATFORM_LOSSES {
            Status::SystemError
        } else {
            Status::Retrying
        };
    }
}

impl Judged {
    pub(super) fn of(answer: &ReportAnswer) -> Judged {
        match answer {
            ReportAnswer::Done(Answer { delete, assign }) => Judged::Done {
                delete: delete.clone(),
                assign: assign.iter().map(|assignment| assignment.handout).collect(),
            },
            // When a session began is the store's own to know.
            ReportAnswer::Occupied { host, .. } => Judged::Refused(ReportAnswer::Occupied {
                host: host.clone(),
                since: Moment(0),
            }),
            other => Judged::Refused(other.clone()),
        }
    }
}
