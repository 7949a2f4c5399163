//! The outcomes of a task's steps in JSON.

use model::{BlobHash, CapturedOutput, LeftOutReason, OutcomeReason, Verdict, WorkspacePath};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{CaseResult, points, schema, serde_text};

/// The outcomes of a task's steps, and the files that it keeps. A task whose compile step failed has no outcome of
/// `execute`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskResult {
    pub compile: Option<Outcome>,
    /// Null for a judged task, whose outcomes are in `cases`.
    pub execute: Option<Outcome>,
    /// The verdict on a judged task: that of its first case that was not accepted. Null for other tasks, like `score`,
    /// `max_score` and `cases`.
    #[serde(with = "serde_text::optional::verdict", default)]
    #[schema(value_type = Option<schema::Verdict>, required = true)]
    pub verdict: Option<Verdict>,
    #[serde(with = "points::optional_score", default)]
    #[schema(required = true)]
    pub score: Option<f64>,
    /// The score if every case were accepted.
    #[serde(with = "points::optional_score", default)]
    #[schema(required = true)]
    pub max_score: Option<f64>,
    /// How each case ended, in the order of the cases.
    #[serde(default)]
    #[schema(required = true)]
    pub cases: Option<Vec<CaseResult>>,
    /// The kept files, sorted by path.
    #[serde(default)]
    #[schema(required = true)]
    pub files: Vec<KeptFile>,
    #[serde(default)]
    #[schema(required = true)]
    pub files_left_out: FilesLeftOut,
}

/// A file of the workspace that was kept when the execute step had ended. `GET /api/v1/tasks/{id}/files/{path}` returns its
/// content, and so does the blob with its hash, which can be an input of another task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptFile {
    #[serde(with = "serde_text::kept_path")]
    #[schema(value_type = String, example = "out/a.csv")]
    pub path: WorkspacePath,
    /// Bytes.
    pub size: u64,
    #[serde(with = "serde_text::blob")]
    #[schema(value_type = schema::Sha256)]
    pub sha256: BlobHash,
    pub executable: bool,
}

/// The files that match a pattern of the task but were not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = LeftOut)]
pub struct FilesLeftOut {
    pub count: u64,
    /// Their size together, as far as it is known.
    pub bytes: u64,
    /// Why the first of them was left out: there were too many files, they were too large together, it is not a regular
    /// file, its name is not UTF-8 or too long, or there was no space. Null if none was left out.
    #[serde(with = "serde_text::optional::left_out_reason")]
    #[schema(value_type = Option<schema::LeftOutReason>)]
    pub why: Option<LeftOutReason>,
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
    /// The first 64 KiB. Bytes that are not UTF-8 are replaced by U+FFFD; `GET /api/v1/tasks/{id}/{step}/{output}` returns
    /// the exact bytes of all that is kept.
    pub stdout: String,
    pub stderr: String,
    /// How many bytes are kept.
    #[serde(default)]
    #[schema(required = true)]
    pub stdout_bytes: u64,
    #[serde(default)]
    #[schema(required = true)]
    pub stderr_bytes: u64,
    /// True if the step wrote more than is kept.
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
}

impl Outcome {
    /// Leaves out what the program has written.
    pub(crate) fn hide_outputs(&mut self) {
        for (text, bytes) in [
            (&mut self.stdout, &mut self.stdout_bytes),
            (&mut self.stderr, &mut self.stderr_bytes),
        ] {
            text.clear();
            *bytes = 0;
        }
        (self.stdout_truncated, self.stderr_truncated) = (false, false);
    }
}

impl From<model::TaskResult> for TaskResult {
    fn from(result: model::TaskResult) -> TaskResult {
        let model::TaskResult {
            compile,
            execute,
            files,
            files_left_out,
            judgement,
        } = result;
        let judgement = judgement.as_ref();
        TaskResult {
            compile: compile.map(Into::into),
            execute: execute.map(Into::into),
            verdict: judgement.map(|judgement| judgement.verdict),
            score: judgement.map(|judgement| judgement.score.as_f64()),
            max_score: judgement.map(|judgement| judgement.max_score.as_f64()),
            cases: None,
            files: files.into_iter().map(Into::into).collect(),
            files_left_out: files_left_out.into(),
        }
    }
}

impl From<model::KeptFile> for KeptFile {
    fn from(file: model::KeptFile) -> KeptFile {
        let model::KeptFile {
            path,
            size,
            blob,
            executable,
        } = file;
        KeptFile {
            path,
            size,
            sha256: blob,
            executable,
        }
    }
}

impl From<model::FilesLeftOut> for FilesLeftOut {
    fn from(model::FilesLeftOut { count, bytes, why }: model::FilesLeftOut) -> FilesLeftOut {
        FilesLeftOut { count, bytes, why }
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
            stdout_bytes: stdout.size,
            stderr_bytes: stderr.size,
            stdout_truncated: stdout.truncated,
            stderr_truncated: stderr.truncated,
            stdout: to_text_lossy(stdout),
            stderr: to_text_lossy(stderr),
        }
    }
}

/// Valid UTF-8, which nearly all output is, is not copied. A character that is cut at the end of the head is left out.
fn to_text_lossy(captured: CapturedOutput) -> String {
    let is_cut = captured.size > CapturedOutput::MAX_HEAD as u64;
    let mut head: Vec<u8> = captured.head.into();
    // Results of earlier versions have all of their output here.
    head.truncate(CapturedOutput::MAX_HEAD);
    if is_cut {
        head.truncate(head.len() - cut_character(&head));
    }
    String::from_utf8(head).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// How many bytes at the end are the beginning of a UTF-8 character whose rest is missing: at most three.
pub fn cut_character(bytes: &[u8]) -> usize {
    let cut = |length: &usize| {
        let end = &bytes[bytes.len() - length..];
        // An error without a length means that the bytes end too early.
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(cut).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_characters_are_found() {
        let check = |bytes: &[u8], expected: usize| assert_eq!(cut_character(bytes), expected, "{bytes:?}");
        check(b"", 0);
        check(b"abc", 0);
        check("é".as_bytes(), 0);
        check(b"a\xc3", 1);
        check(b"\xe2\x82", 2);
        check(b"x\xf0\x9f\x98", 3);
        check("x\u{1f600}".as_bytes(), 0);
        // These bytes are no beginning of a character.
        check(b"a\xff", 0);
        check(b"\x82\x82\x82", 0);
        check(b"\xc0", 0);
    }
}
