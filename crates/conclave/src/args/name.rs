//! Names on the command line, checked before anything is sent.

use model::{ExecutorName, NameError, TaskId, UserName};

pub(crate) fn task_id(text: &str) -> Result<TaskId, NameError> {
    text.parse()
}

pub(crate) fn user_name(text: &str) -> Result<UserName, NameError> {
    UserName::new(text)
}

pub(crate) fn executor_name(text: &str) -> Result<ExecutorName, NameError> {
    ExecutorName::new(text)
}
