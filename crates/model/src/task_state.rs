//! The state of a stored task, and the transitions that a report causes. Both stores decide with these functions.

use std::borrow::Cow;

use crate::{
    AttemptId, AttemptNumber, AttemptRecord, ExecutorName, FailedAttempts, GroupKey, HeldTask, OutcomeReason,
    RecordedEnd, ReleaseDecision, ReleaseReason, ReportSeq, ResourceRequest, SessionId, TaskForm, TaskId,
    TaskStatus, ToolRequirement, UnixTime,
};

/// The fields of a stored task that decide which status transitions it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    pub id: TaskId,
    pub form: TaskForm,
    pub group: Option<GroupKey>,
    /// Whether another task repeats this one. Then its group no longer counts it.
    pub retried: bool,
    pub priority: i32,
    pub add_time: UnixTime,
    pub status: TaskStatus,
    pub executor: Option<ExecutorName>,
    pub session: Option<SessionId>,
    pub attempt: AttemptNumber,
    pub failed_attempts: FailedAttempts,
    /// The bound on lost attempts. `None` for a task that was added before tasks had their own; the operator's applies.
    pub max_attempts: Option<u32>,
    /// Why the last step of a finished task ended.
    pub reason: Option<OutcomeReason>,
    pub resources: ResourceRequest,
    /// Which executors may claim the task.
    pub requires: ToolRequirement,
    /// The report whose answer handed out the current attempt.
    pub assigned_in: ReportSeq,
    pub start_time: Option<UnixTime>,
    pub report_time: Option<UnixTime>,
}

/// How an attempt of a task ended, like [`AttemptEnd`](crate::AttemptEnd), with the result as a store writes it: `R`.
#[derive(Debug)]
pub enum EncodedEnd<R> {
    Result {
        status: TaskStatus,
        reason: Option<OutcomeReason>,
        result: R,
    },
    Broken(String),
    PlatformFailure(String),
}

/// The transition that a store applies to a task whose current attempt has ended: finish it, or release it.
#[derive(Debug, PartialEq, Eq)]
pub enum EndTransition<'a, R> {
    Finish {
        status: TaskStatus,
        reason: Option<OutcomeReason>,
        result: &'a R,
    },
    ReleaseAsLost(Cow<'a, str>),
    ReleaseAsPlatformFailure(&'a str),
}

impl TaskState {
    pub fn attempt_id(&self, session: SessionId) -> AttemptId {
        AttemptId {
            task: self.id,
            session,
            attempt: self.attempt,
        }
    }

    pub fn held_task(&self, session: SessionId) -> HeldTask {
        HeldTask {
            attempt_id: self.attempt_id(session),
            assigned_in: self.assigned_in,
        }
    }

    /// Whether the task is in the queue, waiting for an executor.
    pub fn is_queued(&self) -> bool {
        self.executor.is_none() && !self.status.is_done()
    }

    /// Whether `executor` holds the task now, in exactly this session and attempt. If not, a result of the attempt is
    /// late, and the stores discard it.
    pub fn is_held_as(&self, attempt_id: AttemptId, executor: &ExecutorName) -> bool {
        self.id == attempt_id.task
            && self.executor.as_ref() == Some(executor)
            && self.session == Some(attempt_id.session)
            && self.attempt == attempt_id.attempt
    }

    /// Counts a release, and decides whether the task is tried again. `default_max` is the operator's bound for tasks that
    /// have none of their own. A task of a form that this node does not know is always tried again: this node must not
    /// end it.
    pub fn after_release(&self, why: ReleaseReason<'_>, default_max: u32) -> ReleaseDecision {
        match self.form.is_known() {
            true => self
                .failed_attempts
                .after(why, self.max_attempts.unwrap_or(default_max)),
            false => ReleaseDecision::Retry {
                losses: self.failed_attempts,
                trouble: None,
            },
        }
    }

    /// The record of the current attempt, if it began and now ends. An attempt that its executor returns before it
    /// reported a step did not begin.
    pub fn ended_attempt(&self, end: RecordedEnd, time: UnixTime) -> Option<AttemptRecord> {
        let has_begun = matches!(self.status, TaskStatus::Compiling | TaskStatus::Running);
        let counts = has_begun
            || matches!(
                end,
                RecordedEnd::Finished | RecordedEnd::Lost | RecordedEnd::Broken
            );
        counts.then(|| self.current_attempt(Some((time, end)))).flatten()
    }

    /// The record of the current attempt, if one of its steps has begun.
    pub fn running_attempt(&self) -> Option<AttemptRecord> {
        let has_begun = matches!(self.status, TaskStatus::Compiling | TaskStatus::Running);
        has_begun.then(|| self.current_attempt(None)).flatten()
    }

    fn current_attempt(&self, end: Option<(UnixTime, RecordedEnd)>) -> Option<AttemptRecord> {
        Some(AttemptRecord {
            executor: self.executor.clone()?,
            attempt: self.attempt,
            start_time: self.start_time.unwrap_or(self.add_time),
            end,
        })
    }

    /// The latest time recorded for the task. The time of its next change must not be earlier.
    pub fn latest_time(&self) -> UnixTime {
        let later = [self.start_time, self.report_time];
        later.into_iter().flatten().fold(self.add_time, UnixTime::max)
    }
}

impl<R> EncodedEnd<R> {
    /// The caller has checked that `executor` holds `task` in the attempt that ended.
    pub fn transition(&self, task: &TaskState, executor: &ExecutorName) -> EndTransition<'_, R> {
        match self {
            EncodedEnd::Result {
                status,
                reason,
                result,
            } if task.status.may_become(*status) => EndTransition::Finish {
                status: *status,
                reason: *reason,
                result,
            },
            // The executor contradicts its earlier reports, so the store does not trust the result. The task runs
            // again, and the loss counts, so that this does not repeat for ever.
            EncodedEnd::Result { status, .. } => {
                let trouble = format!("executor {executor} reported {status} after {}", task.status);
                EndTransition::ReleaseAsLost(trouble.into())
            }
            EncodedEnd::Broken(trouble) => EndTransition::ReleaseAsLost(trouble.into()),
            EncodedEnd::PlatformFailure(trouble) => EndTransition::ReleaseAsPlatformFailure(trouble),
        }
    }
}

/// Whether a report that lists a task as executing with status `new` changes the stored status. Only the statuses of
/// steps are recorded this way: a terminal status comes with its result, in `complete`.
pub fn is_new_step_status(current: TaskStatus, new: TaskStatus) -> bool {
    matches!(new, TaskStatus::Compiling | TaskStatus::Running) && current.may_become(new)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn executor(name: &str) -> ExecutorName {
        ExecutorName::new(name).unwrap()
    }

    fn held() -> TaskState {
        TaskState {
            id: TaskId(Uuid::from_u128(1)),
            form: TaskForm::CURRENT,
            group: None,
            retried: false,
            priority: 0,
            add_time: UnixTime(1),
            status: TaskStatus::Running,
            executor: Some(executor("e")),
            session: Some(SessionId(Uuid::from_u128(2))),
            attempt: AttemptNumber(3),
            failed_attempts: FailedAttempts::default(),
            max_attempts: None,
            reason: None,
            resources: ResourceRequest::default(),
            requires: ToolRequirement::default(),
            assigned_in: ReportSeq(4),
            start_time: Some(UnixTime(5)),
            report_time: None,
        }
    }

    #[test]
    fn only_the_current_attempt_of_the_holding_executor_matches() {
        let task = held();
        let session = SessionId(Uuid::from_u128(2));
        let current = task.attempt_id(session);
        assert!(task.is_held_as(current, &executor("e")));
        assert!(!task.is_held_as(current, &executor("other")));
        let other_session = AttemptId {
            session: SessionId(Uuid::from_u128(9)),
            ..current
        };
        let earlier = AttemptId {
            attempt: AttemptNumber(2),
            ..current
        };
        for stale in [other_session, earlier] {
            assert!(!task.is_held_as(stale, &executor("e")), "{stale:?}");
        }
        let released = TaskState {
            executor: None,
            session: None,
            ..held()
        };
        assert!(released.is_queued() && !released.is_held_as(current, &executor("e")));
        assert_eq!(task.latest_time(), UnixTime(5));
    }

    #[test]
    fn a_result_that_contradicts_the_status_is_released_as_lost() {
        let check = |end: EncodedEnd<u8>, expected: EndTransition<'_, u8>| {
            assert_eq!(end.transition(&held(), &executor("e")), expected);
        };
        let result = |status| EncodedEnd::Result {
            status,
            reason: None,
            result: 7,
        };
        check(
            result(TaskStatus::Success),
            EndTransition::Finish {
                status: TaskStatus::Success,
                reason: None,
                result: &7,
            },
        );
        let contradiction = "executor e reported compile_failed after running";
        check(
            result(TaskStatus::CompileFailed),
            EndTransition::ReleaseAsLost(contradiction.into()),
        );
        check(
            EncodedEnd::Broken("hung".into()),
            EndTransition::ReleaseAsLost("hung".into()),
        );
        check(
            EncodedEnd::PlatformFailure("no warden".into()),
            EndTransition::ReleaseAsPlatformFailure("no warden"),
        );
    }

    #[test]
    fn only_the_statuses_of_steps_are_recorded() {
        assert!(is_new_step_status(TaskStatus::Pending, TaskStatus::Running));
        assert!(!is_new_step_status(TaskStatus::Running, TaskStatus::Running));
        assert!(!is_new_step_status(TaskStatus::Running, TaskStatus::Success));
    }
}
