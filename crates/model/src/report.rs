//! The report: the call in which an executor returns results and receives tasks.
//!
//! An executor has one report under way at a time and numbers its reports with `seq`. Every step of handling a report
//! is safe to repeat, so a report that is lost, sent twice or answered twice loses nothing and commits nothing twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    AttemptId, Capacity, CompletedAttempt, ExecutingAttempt, ExecutorDrain, ExecutorName, ExecutorTools,
    MachineLoad, ReportSeq, SessionId, TaskForm, TaskSpec, TaskState, UnixTime,
};

/// What an executor sends to a judicator: its results, the tasks that it has, and how many more it can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub executor: ExecutorName,
    pub session: SessionId,
    pub seq: ReportSeq,
    /// The last report whose answer the executor has received; 0 for none.
    pub acked: ReportSeq,
    /// The previous session on the same data folder. The executor knows that all processes of that session are gone.
    pub succeeds: Option<SessionId>,
    pub complete: Vec<CompletedAttempt>,
    /// Every other task that the executor has, whether it has begun or not.
    pub executing: Vec<ExecutingAttempt>,
    /// How many more tasks the executor can take.
    pub vacant: u32,
    pub executor_info: ExecutorInfo,
    pub intent: ReportIntent,
}

impl Report {
    /// The attempts that the executor has, finished or not.
    pub fn named_attempts(&self) -> impl Iterator<Item = AttemptId> {
        let executing = self.executing.iter().map(|executing| executing.attempt_id);
        executing.chain(self.complete.iter().map(|complete| complete.attempt_id))
    }

    /// Whether a task that the executor holds is not released when it leaves. A node that does not know the task's form
    /// cannot tell whether the attempt has finished; its result is left to newer nodes.
    pub fn keeps_on_leaving(&self, task: &TaskState) -> bool {
        !task.form.is_known()
            && self
                .named_attempts()
                .any(|named| task.is_held_as(named, &self.executor))
    }
}

/// What an executor tells a judicator about itself in each report: slots, host, version and capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorInfo {
    pub slots: u32,
    pub host: String,
    pub version: String,
    /// After this time without an answered report the executor stops its tasks by itself. It must be below the lease,
    /// or two attempts of a task could overlap.
    pub self_kill: Duration,
    /// What a slot can give to a task. `None` from an executor of an older version.
    pub capacity: Option<Capacity>,
    /// The newest form of tasks that the executor knows. It gets no task of a newer one.
    pub newest_form: TaskForm,
    /// The languages and roots that the executor has. `None` if they are the same as in the last report that had them.
    pub tools: Option<Arc<ExecutorTools>>,
    /// The load of its machine. `None` from an executor of an older version, or if the kernel does not say.
    pub load: Option<MachineLoad>,
}

/// Whether the executor's session goes on after this report to a judicator, or ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportIntent {
    Stay,
    /// This is the session's last report. The tasks that it still holds are released.
    Leave,
}

/// A judicator's answer to a report of an executor: instructions, or why the report was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportAnswer {
    Done(ReportInstructions),
    /// A later report of this session was answered already; this one changed nothing.
    Stale,
    /// The session has ended. The executor must stop its tasks and begin a new session.
    Ended,
    /// Another live session uses this executor's name.
    Occupied {
        host: String,
        since: UnixTime,
    },
}

/// What an executor must do after its report to a judicator: attempts to drop, and attempts to run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ReportInstructions {
    /// Completed attempts that the executor may forget, and executing ones that it must kill.
    pub delete: Vec<AttemptId>,
    /// Completed attempts whose results name blobs that the store does not have. The executor uploads them again and
    /// reports the results after that. A completed attempt that is neither here nor in `delete` is reported again later.
    pub upload_again: Vec<AttemptId>,
    pub assign: Vec<Assignment>,
    /// Set while the executor is drained: it gets no new tasks. A judicator of an older version does not say.
    pub drain: Option<ExecutorDrain>,
}

/// A task that a judicator hands to an executor in the answer to a report, to run one attempt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub attempt_id: AttemptId,
    pub spec: TaskSpec,
    /// How many earlier attempts ended as [`AttemptEnd::PlatformFailure`](crate::AttemptEnd::PlatformFailure).
    pub platform_losses: u32,
}

/// A task that an executor's session holds according to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldTask {
    pub attempt_id: AttemptId,
    /// The report whose answer handed the task out.
    pub assigned_in: ReportSeq,
}

/// What the store does with tasks that an executor's session holds but that its report does not name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ReconciledTasks {
    /// The executor received these and no longer has them.
    pub release: Vec<AttemptId>,
    /// The answer that handed these out never arrived, so the store hands them out again.
    pub reassign: Vec<AttemptId>,
}

/// Step 4 of a report: compares the tasks that the executor holds, after steps 1 to 3, with those that the report names.
/// It may hold tasks of an earlier session, whose results it still has to deliver.
pub fn reconcile_held_tasks(held: &[HeldTask], report: &Report) -> ReconciledTasks {
    let named: BTreeSet<_> = report.named_attempts().collect();
    let mut reconciled = ReconciledTasks::default();
    for task in held.iter().filter(|task| !named.contains(&task.attempt_id)) {
        // An executor that leaves does not run a task that it has not received. The answers to an earlier session of the
        // executor are not in `acked`, and the session that follows it can no longer run what they handed out.
        let is_of_this_session = task.attempt_id.session == report.session;
        if task.assigned_in <= report.acked || report.intent == ReportIntent::Leave || !is_of_this_session {
            reconciled.release.push(task.attempt_id);
        } else {
            reconciled.reassign.push(task.attempt_id);
        }
    }
    reconciled
}

/// Whether the store accepts the session of an executor's report, which is step 1 of handling the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCheck {
    /// The report is the session's next one, or a repeat of its last.
    Continues,
    /// The report opens a new session. The previous session, if it is still live, ends.
    Opens,
    Refused(ReportAnswer),
}

/// The session that a task store has recorded under an executor's name, to check the next report against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    pub session: SessionId,
    pub seq: ReportSeq,
    pub live: bool,
    pub host: String,
    pub since: UnixTime,
}

/// Compares the report's session with the stored one.
pub fn check_session(stored: Option<&StoredSession>, report: &Report) -> SessionCheck {
    let is_first_report = report.seq == ReportSeq(1);
    match stored {
        Some(stored) if stored.session == report.session => {
            if report.seq < stored.seq {
                SessionCheck::Refused(ReportAnswer::Stale)
            } else if stored.live {
                SessionCheck::Continues
            } else {
                SessionCheck::Refused(ReportAnswer::Ended)
            }
        }
        // Only a first report opens a session. A later report comes from a session that was ended meanwhile.
        _ if !is_first_report => SessionCheck::Refused(ReportAnswer::Ended),
        Some(stored) if stored.live && report.succeeds != Some(stored.session) => {
            SessionCheck::Refused(ReportAnswer::Occupied {
                host: stored.host.clone(),
                since: stored.since,
            })
        }
        _ => SessionCheck::Opens,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{AttemptNumber, TaskId};

    fn session(number: u128) -> SessionId {
        SessionId(Uuid::from_u128(number))
    }

    fn report(session: SessionId, seq: u64, acked: u64) -> Report {
        Report {
            executor: ExecutorName::new("e").unwrap(),
            session,
            seq: ReportSeq(seq),
            acked: ReportSeq(acked),
            succeeds: None,
            complete: vec![],
            executing: vec![],
            vacant: 1,
            executor_info: ExecutorInfo {
                slots: 1,
                host: "h".into(),
                version: "v".into(),
                self_kill: Duration::from_secs(7),
                capacity: None,
                newest_form: TaskForm::NEWEST,
                tools: None,
                load: None,
            },
            intent: ReportIntent::Stay,
        }
    }

    fn stored(session: SessionId, seq: u64, live: bool) -> StoredSession {
        StoredSession {
            session,
            seq: ReportSeq(seq),
            live,
            host: "other".into(),
            since: UnixTime(7),
        }
    }

    #[test]
    fn held_tasks_that_a_report_does_not_name_are_released_or_handed_out_again() {
        let session = session(1);
        let hold = |assigned_in| HeldTask {
            attempt_id: AttemptId {
                task: TaskId(Uuid::from_u128(u128::from(assigned_in))),
                session,
                attempt: AttemptNumber(1),
            },
            assigned_in: ReportSeq(assigned_in),
        };
        let (named, forgotten, lost) = (hold(2), hold(3), hold(4));
        let mut report = report(session, 5, 3);
        report.executing = vec![ExecutingAttempt {
            attempt_id: named.attempt_id,
            status: None,
        }];
        let held = [named, forgotten, lost];
        assert_eq!(
            reconcile_held_tasks(&held, &report),
            ReconciledTasks {
                release: vec![forgotten.attempt_id],
                reassign: vec![lost.attempt_id]
            }
        );
        let mut of_earlier_session = hold(9);
        of_earlier_session.attempt_id.session = self::session(2);
        assert_eq!(
            reconcile_held_tasks(&[of_earlier_session], &report).release,
            [of_earlier_session.attempt_id]
        );
        report.intent = ReportIntent::Leave;
        assert_eq!(
            reconcile_held_tasks(&held, &report),
            ReconciledTasks {
                release: vec![forgotten.attempt_id, lost.attempt_id],
                reassign: vec![]
            }
        );
    }

    #[test]
    fn only_the_current_session_or_its_successor_may_report() {
        let (mine, other) = (session(1), session(2));
        let stale = SessionCheck::Refused(ReportAnswer::Stale);
        let ended = SessionCheck::Refused(ReportAnswer::Ended);
        let occupied = SessionCheck::Refused(ReportAnswer::Occupied {
            host: "other".into(),
            since: UnixTime(7),
        });
        let check = |stored: Option<StoredSession>, seq, expected: &SessionCheck| {
            assert_eq!(
                &check_session(stored.as_ref(), &report(mine, seq, 0)),
                expected,
                "{stored:?} {seq}"
            );
        };
        check(None, 1, &SessionCheck::Opens);
        check(None, 2, &ended);
        check(Some(stored(mine, 3, true)), 4, &SessionCheck::Continues);
        check(Some(stored(mine, 3, true)), 3, &SessionCheck::Continues);
        check(Some(stored(mine, 3, true)), 2, &stale);
        check(Some(stored(mine, 3, false)), 4, &ended);
        check(Some(stored(mine, 3, false)), 2, &stale);
        check(Some(stored(other, 3, true)), 1, &occupied);
        check(Some(stored(other, 3, true)), 4, &ended);
        check(Some(stored(other, 3, false)), 1, &SessionCheck::Opens);
        let successor = Report {
            succeeds: Some(other),
            ..report(mine, 1, 0)
        };
        assert_eq!(
            check_session(Some(&stored(other, 3, true)), &successor),
            SessionCheck::Opens
        );
    }
}
