//! Names on the command line, checked before anything is sent.

use model::{ExecutorName, NameError, NetworkName, TaskId, UserName};

pub(crate) fn task_id(text: &str) -> Result<TaskId, NameError> {
    text.parse()
}

pub(crate) fn user_name(text: &str) -> Result<UserName, NameError> {
    UserName::new(text)
}

pub(crate) fn network_name(text: &str) -> Result<NetworkName, NameError> {
    NetworkName::new(text)
}

pub(crate) fn executor_name(text: &str) -> Result<ExecutorName, NameError> {
    ExecutorName::new(text)
}
