//! The encoded form of a task's result.

use std::time::Duration;

use bytes::Bytes;
use model::{CapturedOutput, Outcome, TaskResult};
use serde::{Deserialize, Serialize};

use super::raw_bytes::RawBytes;

/// Version 1 of the encoded form in which both stores write a task's result (`TaskResult`).
#[derive(Serialize, Deserialize)]
pub(super) struct ResultDocument<'a> {
    #[serde(borrow)]
    compile: Option<OutcomeDocument<'a>>,
    execute: Option<OutcomeDocument<'a>>,
}

/// The encoded form of the `Outcome` of one step in a stored task result.
#[derive(Serialize, Deserialize)]
struct OutcomeDocument<'a> {
    /// The reason's name. A number would depend on the order of the variants in the model.
    reason: &'a str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall: Duration,
    cpu: Duration,
    memory: u64,
    #[serde(borrow)]
    stdout: CapturedOutputDocument<'a>,
    stderr: CapturedOutputDocument<'a>,
}

/// The encoded form of a step's stdout or stderr (`CapturedOutput`) in a stored task result.
#[derive(Serialize, Deserialize)]
struct CapturedOutputDocument<'a> {
    #[serde(borrow)]
    bytes: RawBytes<'a>,
    truncated: bool,
}

impl<'a> From<&'a TaskResult> for ResultDocument<'a> {
    fn from(result: &'a TaskResult) -> ResultDocument<'a> {
        let TaskResult { compile, execute } = result;
        ResultDocument {
            compile: compile.as_ref().map(Into::into),
            execute: execute.as_ref().map(Into::into),
        }
    }
}

impl<'a> From<&'a Outcome> for OutcomeDocument<'a> {
    fn from(outcome: &'a Outcome) -> OutcomeDocument<'a> {
        let Outcome {
            reason,
            exit_code,
            signal,
            wall,
            cpu,
            memory,
            stdout,
            stderr,
        } = outcome;
        OutcomeDocument {
            reason: reason.as_str(),
            exit_code: *exit_code,
            signal: *signal,
            wall: *wall,
            cpu: *cpu,
            memory: *memory,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }
}

impl<'a> From<&'a CapturedOutput> for CapturedOutputDocument<'a> {
    fn from(captured: &'a CapturedOutput) -> CapturedOutputDocument<'a> {
        CapturedOutputDocument {
            bytes: RawBytes(&captured.bytes),
            truncated: captured.truncated,
        }
    }
}

impl TryFrom<ResultDocument<'_>> for TaskResult {
    type Error = postcard::Error;

    fn try_from(document: ResultDocument<'_>) -> Result<TaskResult, postcard::Error> {
        Ok(TaskResult {
            compile: document.compile.map(Outcome::try_from).transpose()?,
            execute: document.execute.map(Outcome::try_from).transpose()?,
        })
    }
}

impl TryFrom<OutcomeDocument<'_>> for Outcome {
    type Error = postcard::Error;

    fn try_from(document: OutcomeDocument<'_>) -> Result<Outcome, postcard::Error> {
        let OutcomeDocument {
            reason,
            exit_code,
            signal,
            wall,
            cpu,
            memory,
            stdout,
            stderr,
        } = document;
        Ok(Outcome {
            reason: reason.parse().map_err(|_| postcard::Error::SerdeDeCustom)?,
            exit_code,
            signal,
            wall,
            cpu,
            memory,
            stdout: stdout.into(),
            stderr: stderr.into(),
        })
    }
}

impl From<CapturedOutputDocument<'_>> for CapturedOutput {
    fn from(document: CapturedOutputDocument<'_>) -> CapturedOutput {
        let CapturedOutputDocument { bytes, truncated } = document;
        CapturedOutput {
            bytes: Bytes::copy_from_slice(bytes.0),
            truncated,
        }
    }
}
