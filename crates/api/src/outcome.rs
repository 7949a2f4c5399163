//! How steps ended.

use model::{Captured, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{name, schema};

/// The outcomes of the steps. A task that did not compile has no outcome of `execute`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    pub execute: Option<Outcome>,
}

/// How a step ended. A program that fails, hangs or floods is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    #[serde(with = "name::reason")]
    #[schema(value_type = schema::Reason)]
    pub reason: Reason,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    /// The most it used at one time.
    pub memory_bytes: u64,
    /// Bytes that are not UTF-8 are shown as U+FFFD; the raw URL has them as they are.
    pub stdout: String,
    pub stderr: String,
    /// There was more than is kept.
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
            stdout: lossy(stdout),
            stderr: lossy(stderr),
        }
    }
}

/// What is UTF-8, as nearly all output is, is not copied.
fn lossy(captured: Captured) -> String {
    String::from_utf8(captured.bytes.into())
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
