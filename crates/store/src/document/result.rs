//! The encoded forms of a task's result.

use std::time::Duration;

use bytes::Bytes;
use model::{BlobHash, CapturedOutput, FilesLeftOut, KeptFile, Outcome, TaskResult, WorkspacePath};
use serde::{Deserialize, Serialize};

use super::judgement::JudgementDocument;
use super::raw_bytes::RawBytes;

/// Version 3 of the encoded form in which both stores write a `TaskResult`: adds the judgement on a task with cases. The
/// results of other tasks are written in version 2, which earlier releases can read.
#[derive(Serialize, Deserialize)]
pub(super) struct ResultDocumentV3<'a> {
    #[serde(borrow)]
    v2: ResultDocumentV2<'a>,
    judgement: Option<JudgementDocument<'a>>,
}

/// Version 2 of the encoded form in which both stores write a `TaskResult`: of a long output it holds the first bytes and
/// the name of the blob with all of it, and it lists the kept files.
#[derive(Serialize, Deserialize)]
pub(super) struct ResultDocumentV2<'a> {
    #[serde(borrow)]
    compile: Option<OutcomeDocument<'a, OutputDocumentV2<'a>>>,
    execute: Option<OutcomeDocument<'a, OutputDocumentV2<'a>>>,
    files: Vec<KeptFileDocument<'a>>,
    files_left_out: FilesLeftOutDocument<'a>,
}

/// Version 1 of the encoded form in which both stores wrote a task's result (`TaskResult`), with all of its output.
#[derive(Serialize, Deserialize)]
pub(super) struct ResultDocumentV1<'a> {
    #[serde(borrow)]
    compile: Option<OutcomeDocument<'a, OutputDocumentV1<'a>>>,
    execute: Option<OutcomeDocument<'a, OutputDocumentV1<'a>>>,
}

/// The encoded form of the `Outcome` of one step in a stored task result. `O` is the form of its outputs.
#[derive(Serialize, Deserialize)]
struct OutcomeDocument<'a, O> {
    /// The reason's name. A number would depend on the order of the variants in the model.
    reason: &'a str,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall: Duration,
    cpu: Duration,
    memory: u64,
    stdout: O,
    stderr: O,
}

/// The encoded form of a step's stdout or stderr (`CapturedOutput`) in version 2 of a stored task result.
#[derive(Serialize, Deserialize)]
struct OutputDocumentV2<'a> {
    #[serde(borrow)]
    head: RawBytes<'a>,
    size: u64,
    blob: Option<[u8; 32]>,
    truncated: bool,
}

/// The encoded form of a step's stdout or stderr (`CapturedOutput`) in version 1 of a stored task result.
#[derive(Serialize, Deserialize)]
struct OutputDocumentV1<'a> {
    #[serde(borrow)]
    bytes: RawBytes<'a>,
    truncated: bool,
}

/// The encoded form of a kept file (`KeptFile`) in a stored task result.
#[derive(Serialize, Deserialize)]
struct KeptFileDocument<'a> {
    path: &'a str,
    size: u64,
    blob: [u8; 32],
    executable: bool,
}

/// The encoded form of what is known about the files that were not kept (`FilesLeftOut`) in a stored task result.
#[derive(Default, Serialize, Deserialize)]
struct FilesLeftOutDocument<'a> {
    count: u64,
    bytes: u64,
    /// The reason's name.
    why: Option<&'a str>,
}

impl<'a> From<&'a TaskResult> for ResultDocumentV3<'a> {
    fn from(result: &'a TaskResult) -> ResultDocumentV3<'a> {
        ResultDocumentV3 {
            v2: result.into(),
            judgement: result.judgement.as_ref().map(Into::into),
        }
    }
}

impl<'a> From<ResultDocumentV2<'a>> for ResultDocumentV3<'a> {
    fn from(v2: ResultDocumentV2<'a>) -> ResultDocumentV3<'a> {
        ResultDocumentV3 { v2, judgement: None }
    }
}

impl<'a> From<&'a TaskResult> for ResultDocumentV2<'a> {
    fn from(result: &'a TaskResult) -> ResultDocumentV2<'a> {
        let TaskResult {
            compile,
            execute,
            files,
            files_left_out,
            judgement: _,
        } = result;
        ResultDocumentV2 {
            compile: compile.as_ref().map(Into::into),
            execute: execute.as_ref().map(Into::into),
            files: files.iter().map(Into::into).collect(),
            files_left_out: FilesLeftOutDocument {
                count: files_left_out.count,
                bytes: files_left_out.bytes,
                why: files_left_out.why.map(model::LeftOutReason::as_str),
            },
        }
    }
}

impl<'a> From<ResultDocumentV1<'a>> for ResultDocumentV2<'a> {
    fn from(v1: ResultDocumentV1<'a>) -> ResultDocumentV2<'a> {
        ResultDocumentV2 {
            compile: v1.compile.map(OutcomeDocument::upgrade),
            execute: v1.execute.map(OutcomeDocument::upgrade),
            files: vec![],
            files_left_out: FilesLeftOutDocument::default(),
        }
    }
}

impl<'a> OutcomeDocument<'a, OutputDocumentV1<'a>> {
    fn upgrade(self) -> OutcomeDocument<'a, OutputDocumentV2<'a>> {
        // Version 1 has no blobs: its head may be longer than `CapturedOutput::MAX_HEAD`, and is everything that was kept.
        let output = |output: OutputDocumentV1<'a>| OutputDocumentV2 {
            size: output.bytes.0.len() as u64,
            head: output.bytes,
            blob: None,
            truncated: output.truncated,
        };
        OutcomeDocument {
            reason: self.reason,
            exit_code: self.exit_code,
            signal: self.signal,
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            stdout: output(self.stdout),
            stderr: output(self.stderr),
        }
    }
}

impl<'a> From<&'a Outcome> for OutcomeDocument<'a, OutputDocumentV2<'a>> {
    fn from(outcome: &'a Outcome) -> OutcomeDocument<'a, OutputDocumentV2<'a>> {
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

impl<'a> From<&'a CapturedOutput> for OutputDocumentV2<'a> {
    fn from(captured: &'a CapturedOutput) -> OutputDocumentV2<'a> {
        let CapturedOutput {
            head,
            size,
            blob,
            truncated,
        } = captured;
        OutputDocumentV2 {
            head: RawBytes(head),
            size: *size,
            blob: blob.map(|hash| hash.0),
            truncated: *truncated,
        }
    }
}

impl<'a> From<&'a KeptFile> for KeptFileDocument<'a> {
    fn from(file: &'a KeptFile) -> KeptFileDocument<'a> {
        let KeptFile {
            path,
            size,
            blob,
            executable,
        } = file;
        KeptFileDocument {
            path: path.as_str(),
            size: *size,
            blob: blob.0,
            executable: *executable,
        }
    }
}

impl TryFrom<ResultDocumentV3<'_>> for TaskResult {
    type Error = postcard::Error;

    fn try_from(document: ResultDocumentV3<'_>) -> Result<TaskResult, postcard::Error> {
        let judgement = document.judgement.map(TryInto::try_into).transpose()?;
        Ok(TaskResult {
            judgement,
            ..TaskResult::try_from(document.v2)?
        })
    }
}

impl TryFrom<ResultDocumentV2<'_>> for TaskResult {
    type Error = postcard::Error;

    fn try_from(document: ResultDocumentV2<'_>) -> Result<TaskResult, postcard::Error> {
        let FilesLeftOutDocument { count, bytes, why } = document.files_left_out;
        let why = why.map(str::parse).transpose();
        Ok(TaskResult {
            compile: document.compile.map(Outcome::try_from).transpose()?,
            execute: document.execute.map(Outcome::try_from).transpose()?,
            files: document
                .files
                .into_iter()
                .map(KeptFile::try_from)
                .collect::<Result<_, _>>()?,
            files_left_out: FilesLeftOut {
                count,
                bytes,
                why: why.map_err(|_: String| postcard::Error::SerdeDeCustom)?,
            },
            judgement: None,
        })
    }
}

impl<'a> TryFrom<OutcomeDocument<'a, OutputDocumentV2<'a>>> for Outcome {
    type Error = postcard::Error;

    fn try_from(document: OutcomeDocument<'a, OutputDocumentV2<'a>>) -> Result<Outcome, postcard::Error> {
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

impl From<OutputDocumentV2<'_>> for CapturedOutput {
    fn from(document: OutputDocumentV2<'_>) -> CapturedOutput {
        let OutputDocumentV2 {
            head,
            size,
            blob,
            truncated,
        } = document;
        CapturedOutput {
            head: Bytes::copy_from_slice(head.0),
            size,
            blob: blob.map(BlobHash),
            truncated,
        }
    }
}

impl TryFrom<KeptFileDocument<'_>> for KeptFile {
    type Error = postcard::Error;

    fn try_from(document: KeptFileDocument<'_>) -> Result<KeptFile, postcard::Error> {
        let KeptFileDocument {
            path,
            size,
            blob,
            executable,
        } = document;
        Ok(KeptFile {
            path: WorkspacePath::of_kept_file(path).map_err(|_| postcard::Error::SerdeDeCustom)?,
            size,
            blob: BlobHash(blob),
            executable,
        })
    }
}
