//! The form of a task: which fields its specification and its result may have.

use std::fmt;

use crate::{TaskSpec, ToolRequirement};

/// The version of the form in which a task is stored and sent. A release that gives tasks something new adds a form.
///
/// A node that does not know the form of a task neither claims nor ends it, and leaves it to the nodes that do. So old and
/// new nodes can run in one cluster during a rolling upgrade. A result has the form of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskForm(pub u32);

impl TaskForm {
    /// The form of tasks that are stored without one: they were added before forms were recorded.
    pub const UNRECORDED: TaskForm = TaskForm(3);
    /// Kept files, labels, groups, the number of attempts, `retry_of`.
    pub const WITH_KEPT_FILES: TaskForm = TaskForm(4);
    /// A language and a root.
    pub const WITH_TOOLS: TaskForm = TaskForm(5);
    /// Cases and a check.
    pub const WITH_CASES: TaskForm = TaskForm(6);
    /// The newest form of this release.
    pub const CURRENT: TaskForm = TaskForm::WITH_CASES;
    /// The newest form that this node knows.
    #[cfg(not(feature = "next-form"))]
    pub const NEWEST: TaskForm = TaskForm::CURRENT;
    #[cfg(feature = "next-form")]
    pub const NEWEST: TaskForm = TaskForm(TaskForm::CURRENT.0 + 1);

    /// The lowest form that has all fields of the specification, so that as many nodes as possible can run the task.
    #[cfg(not(feature = "next-form"))]
    pub fn of(spec: &TaskSpec) -> TaskForm {
        TaskForm::of_known_fields(spec)
    }

    /// A made-up next form, for tests of mixed clusters: tasks with this label have it.
    #[cfg(feature = "next-form")]
    pub fn of(spec: &TaskSpec) -> TaskForm {
        let is_next = spec.labels.iter().any(|(key, _)| key == "next-form");
        if is_next {
            TaskForm::NEWEST
        } else {
            TaskForm::of_known_fields(spec)
        }
    }

    fn of_known_fields(spec: &TaskSpec) -> TaskForm {
        match ToolRequirement::of(spec).is_none() {
            _ if spec.judging.is_some() || spec.problem.is_some() => TaskForm::WITH_CASES,
            true => TaskForm::WITH_KEPT_FILES,
            false => TaskForm::WITH_TOOLS,
        }
    }

    /// The newest form of an executor that runs tasks without cells: tasks with cases need them, because no case and no answer
    /// may be seen by the program that is judged.
    pub const NEWEST_WITHOUT_CELLS: TaskForm = TaskForm::WITH_TOOLS;

    pub fn is_known(self) -> bool {
        self <= TaskForm::NEWEST
    }
}

impl fmt::Display for TaskForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
