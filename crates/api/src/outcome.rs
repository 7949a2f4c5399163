//! The outcomes of a task's steps in JSON.

use model::{CapturedOutput, OutcomeReason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{schema, serde_text};

/// The outcomes of a task's steps. A task whose compile step failed has no outcome of `execute`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    pub execute: Option<Outcome>,
}

/// How a step ended. A program that fails, hangs or writes too much output is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    #[serde(with = "serde_text::reason")]
    #[schema(value_type = schema::Reason)]
    pub reason: OutcomeReason,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    /// Peak memory of the step.
    pub memory_bytes: u64,
    /// Bytes that are not UTF-8 are replaced by U+FFFD; `GET /api/v1/tasks/{id}/{step}/{output}` returns the exact bytes.
    pub stdout: String,
    pub stderr: String,
    /// True if the step wrote more than was kept.
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
}

impl From<model::TaskResult> for TaskResult {
    fn from(model::TaskResult { compile, execute }: model::TaskResult) -> TaskResult {
        TaskResult {
            compile: compile.map(Into::into),
            execute: execute.map(Into::into),
        }
    }
}

impl From<model::Outcome> for Outcome {
    fn from(outcome: model::Outcome) -> Outcome {
        let model::Outcome {
            reason,
            exit_code,
            signal,
            wall,
            cpu,
            memory,
            stdout,
            stderr,
        } = outcome;
        Outcome {
            reason,
            exit_code,
            signal,
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds: cpu.as_secs_f64(),
            memory_bytes: memory,
            stdout_truncated: stdout.truncated,
            stderr_truncated: stderr.truncated,
            stdout: to_text_lossy(stdout),
            stderr: to_text_lossy(stderr),
        }
    }
}

/// Valid UTF-8, which nearly all output is, is not copied.
fn to_text_lossy(captured: CapturedOutput) -> String {
    String::from_utf8(captured.bytes.into())
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
