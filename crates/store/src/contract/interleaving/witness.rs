//! Watches what a store answers, knowing none of its rules: only what must never be seen.

use std::collections::BTreeMap;

use model::{Attempt, ExecutorName, Report, ReportAnswer, SessionId, Task, TaskId};

use crate::Reported;

#[derive(Default)]
pub(super) struct Witness {
    /// To whom each attempt was handed out.
    handed_out: BTreeMap<(TaskId, Attempt), (ExecutorName, SessionId)>,
    /// How many results the store said it has committed.
    commits: usize,
    /// Tasks as they were when they were first seen to be done.
    ended: BTreeMap<TaskId, Task>,
}

impl Witness {
    pub(super) fn saw_report(&mut self, report: &Report, reported: &Reported) {
        let ReportAnswer::Done(answer) = &reported.answer else {
            assert!(reported.finished.is_empty() && reported.claimed.is_empty());
            return;
        };
        self.commits += reported.finished.len();
        for assignment in &answer.assign {
            let handout = assignment.handout;
            let to = (report.executor.clone(), report.session);
            let holder = self
                .handed_out
                .entry((handout.task, handout.attempt))
                .or_insert_with(|| to.clone());
            assert_eq!(*holder, to, "one attempt, two holders: {handout:?}");
            assert!(
                !self.ended.contains_key(&handout.task),
                "a done task was handed out: {handout:?}"
            );
        }
    }

    /// At the end: each result was committed once.
    pub(super) fn check_commits(&self) {
        let results = self.ended.values().filter(|task| task.result.is_some()).count();
        assert_eq!(results, self.commits);
    }

    /// One look at a task.
    pub(super) fn saw_task(&mut self, task: &Task) {
        if let Some(ended) = self.ended.get(&task.id) {
            assert_eq!(task, ended, "a done task has changed");
            return;
        }
        if !task.status.done() {
            assert_eq!(task.result, None);
            return;
        }
        assert_eq!((&task.executor, task.session), (&None, None));
        if let Some(result) = &task.result {
            assert_eq!(result.status(), task.status);
            self.check_mark(task);
        }
        self.ended.insert(task.id, task.clone());
    }

    /// Successes say of which attempt they are: it must be the last one, from the one who had it.
    fn check_mark(&self, task: &Task) {
        let Some(execute) = task.result.as_ref().and_then(|result| result.execute.as_ref()) else {
            return;
        };
        if !execute.succeeded() {
            return;
        }
        let (executor, session) = &self.handed_out[&(task.id, task.attempt)];
        let expected = format!("{} {executor} {session}", task.attempt);
        assert_eq!(
            execute.stdout.bytes,
            expected.as_bytes(),
            "the result is of another attempt"
        );
    }
}
