//! Values that tests of several modules need.

use std::collections::BTreeMap;

use model::{Attempt, Command, Content, ExecuteStep, Handout, Limits, SessionId, TaskId, TaskSpec, UserName};

/// The first attempt of a new task.
pub(crate) fn handout(session: SessionId) -> Handout {
    Handout {
        task: TaskId::generate(),
        session,
        attempt: Attempt(1),
    }
}

/// A task that does nothing.
pub(crate) fn spec(input: Content) -> TaskSpec {
    TaskSpec {
        user: UserName::new("ada").unwrap(),
        priority: 0,
        compile: None,
        execute: ExecuteStep {
            command: Command::Shell("true".into()),
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
