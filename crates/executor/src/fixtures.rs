//! Values that tests of several modules need.

use std::collections::BTreeMap;

use model::{
    AttemptId, AttemptNumber, Content, ExecuteStep, Limits, SessionId, StepCommand, TaskId, TaskSpec,
    UserName,
};

/// The first attempt of a new task.
pub(crate) fn attempt_id(session: SessionId) -> AttemptId {
    AttemptId {
        task: TaskId(uuid::Uuid::now_v7()),
        session,
        attempt: AttemptNumber(1),
    }
}

/// A task that does nothing.
pub(crate) fn spec(input: Content) -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        compile: None,
        execute: ExecuteStep {
            command: StepCommand::Shell("true".into()),
            args: Vec::new(),
            env: BTreeMap::new(),
            input,
            network: None,
            limits: Limits::default(),
        },
        source: BTreeMap::new(),
        data: BTreeMap::new(),
    }
}
