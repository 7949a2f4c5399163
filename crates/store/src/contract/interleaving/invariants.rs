//! Invariants that hold in every history, checked without knowledge of the store's rules.

use std::collections::BTreeMap;

use model::{
    AttemptNumber, AttemptRecord, ExecutorName, RecordedEnd, Report, ReportAnswer, SessionId, Task, TaskId,
    TaskStatus,
};

use crate::HandledReport;

/// A record of what the store under test has answered in a random history; panics if an answer violates an invariant.
#[derive(Default)]
pub(super) struct InvariantChecker {
    /// The holder of each assigned attempt.
    holders: BTreeMap<(TaskId, AttemptNumber), (ExecutorName, SessionId)>,
    /// How many results the store reported as committed.
    commits: usize,
    /// Each done task as it was when it was first read.
    done: BTreeMap<TaskId, Task>,
}

impl InvariantChecker {
    pub(super) fn check_report(&mut self, report: &Report, reported: &HandledReport) {
        let ReportAnswer::Done(answer) = &reported.answer else {
            assert!(reported.finished.is_empty() && reported.claimed_add_times.is_empty());
            return;
        };
        self.commits += reported.finished.len();
        for assignment in &answer.assign {
            let attempt_id = assignment.attempt_id;
            let to = (report.executor.clone(), report.session);
            let holder = self
                .holders
                .entry((attempt_id.task, attempt_id.attempt))
                .or_insert_with(|| to.clone());
            assert_eq!(*holder, to, "one attempt has two holders: {attempt_id:?}");
            assert!(
                !self.done.contains_key(&attempt_id.task),
                "a done task was assigned: {attempt_id:?}"
            );
        }
    }

    /// Called at the end of a history: each result was committed once.
    pub(super) fn check_commits(&self) {
        let results = self.done.values().filter(|task| task.result.is_some()).count();
        assert_eq!(results, self.commits);
    }

    pub(super) fn check_task(&mut self, task: &Task) {
        if let Some(done) = self.done.get(&task.id) {
            assert_eq!(task, done, "a done task has changed");
            return;
        }
        let numbers: Vec<_> = task.ran_on.iter().map(|record| record.attempt).collect();
        assert!(
            numbers.is_sorted() && numbers.len() <= AttemptRecord::MAX_COUNT,
            "{task:?}"
        );
        let open = task.ran_on.iter().filter(|record| record.end.is_none()).count();
        let has_begun = matches!(task.status, TaskStatus::Compiling | TaskStatus::Running);
        assert_eq!(open, usize::from(has_begun), "{task:?}");
        if !task.status.is_done() {
            assert_eq!(task.result, None);
            return;
        }
        assert_eq!((&task.executor, task.session), (&None, None));
        if let Some(result) = &task.result {
            assert_eq!(result.status(), task.status);
            let last = task.ran_on.last().map(|record| (record.attempt, record.end));
            let end = task.finish_time.map(|time| (time, RecordedEnd::Finished));
            assert_eq!(last, Some((task.attempt, end)));
            self.check_attempt(task);
        }
        self.done.insert(task.id, task.clone());
    }

    /// The output of a successful result names its attempt. It must be the last attempt, of the executor that held it.
    fn check_attempt(&self, task: &Task) {
        let Some(execute) = task.result.as_ref().and_then(|result| result.execute.as_ref()) else {
            return;
        };
        if !execute.succeeded() {
            return;
        }
        let (executor, session) = &self.holders[&(task.id, task.attempt)];
        let expected = format!("{} {executor} {session}", task.attempt);
        assert_eq!(
            execute.stdout.head,
            expected.as_bytes(),
            "the result is of another attempt"
        );
    }
}
