//! Values that tests of several modules need.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    AttemptId, AttemptNumber, CapturedOutput, Content, ExecuteStep, Labels, Limits, Outcome, OutcomeReason,
    SessionId, StepCommand, TaskId, TaskSpec, UserName,
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
        judging: None,
        problem: None,
        keep: Vec::new(),
        labels: Labels::default(),
        group: None,
        attempts: None,
        language: None,
        root: None,
        retry_of: None,
    }
}

/// The outcome of a command that did nothing.
pub(crate) fn outcome() -> Outcome {
    Outcome {
        reason: OutcomeReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        memory: 0,
        stdout: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
    }
}
