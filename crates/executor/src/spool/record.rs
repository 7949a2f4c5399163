//! The format of one result in the journal: its version and length, a checksum, and the encoded record.
//!
//! The version is in the upper bits of the length, where the first version, [`unversioned`], has zeros. The record of a
//! judged task has its [`judgement`] at the end, and a version of its own.

mod judgement;
mod unversioned;

use std::time::Duration;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, BlobHash, CapturedOutput, CompletedAttempt, FilesLeftOut, KeptFile,
    Outcome, SessionId, TaskForm, TaskId, TaskResult, WorkspacePath,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const CHECKSUM_LEN: usize = 8;
const HEADER_LEN: usize = 4 + CHECKSUM_LEN;
const VERSION: u32 = 1;
/// So that an earlier release does not read the record and report the result without its judgement.
const VERSION_WITH_JUDGEMENT: u32 = 2;
const VERSION_SHIFT: u32 = 28;

pub(super) fn encode(complete: &CompletedAttempt) -> Vec<u8> {
    let mut record = vec![0; HEADER_LEN];
    let document = SpoolRecord::from(complete);
    // These types cannot fail to encode; an empty body would be read as damage and not as a result.
    record.extend(postcard::to_stdvec(&document).unwrap_or_default());
    let version = match judgement::of_end(&complete.end) {
        Some(judgement) => {
            record.extend(judgement::encode(judgement));
            VERSION_WITH_JUDGEMENT
        }
        None => VERSION,
    };
    let length = (record.len() - HEADER_LEN) as u32 | version << VERSION_SHIFT;
    let checksum = checksum(&record[HEADER_LEN..]);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..HEADER_LEN].copy_from_slice(&checksum);
    record
}

/// The first record and the bytes after it; `None` if there is no complete record.
pub(super) fn decode(bytes: &[u8]) -> Option<(CompletedAttempt, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER_LEN)?;
    let field = u32::from_le_bytes(head[..4].try_into().ok()?);
    let (version, length) = (field >> VERSION_SHIFT, field & !(u32::MAX << VERSION_SHIFT));
    let (body, rest) = rest.split_at_checked(length as usize)?;
    if checksum(body) != head[4..] {
        return None;
    }
    let complete = match version {
        0 => unversioned::decode(body)?,
        VERSION => postcard::from_bytes::<SpoolRecord>(body).ok()?.into_model()?,
        VERSION_WITH_JUDGEMENT => {
            let (record, judgement) = postcard::take_from_bytes::<SpoolRecord>(body).ok()?;
            judgement::add_to(record.into_model()?, judgement)?
        }
        _ => return None,
    };
    Some((complete, rest))
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM_LEN] {
    let digest = Sha256::digest(body);
    std::array::from_fn(|index| digest[index])
}

/// The encoded form of a completed attempt in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct SpoolRecord {
    task: [u8; 16],
    session: [u8; 16],
    attempt: u32,
    form: u32,
    end: EndRecord,
}

/// The encoded form of [`AttemptEnd`], how an attempt ended, in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are the large variant"
)]
enum EndRecord {
    Result {
        compile: Option<OutcomeRecord>,
        execute: Option<OutcomeRecord>,
        files: Vec<KeptFileRecord>,
        left_out: LeftOutRecord,
    },
    Broken(String),
    PlatformFailure(String),
}

/// The encoded form of the [`Outcome`] of a task's step in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct OutcomeRecord {
    reason: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall: Duration,
    cpu: Duration,
    memory: u64,
    stdout: OutputRecord,
    stderr: OutputRecord,
}

/// The encoded form of a [`CapturedOutput`] in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct OutputRecord {
    head: Vec<u8>,
    size: u64,
    blob: Option<[u8; 32]>,
    truncated: bool,
}

/// The encoded form of a [`KeptFile`] in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct KeptFileRecord {
    path: String,
    size: u64,
    blob: [u8; 32],
    executable: bool,
}

/// The encoded form of [`FilesLeftOut`] in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct LeftOutRecord {
    count: u64,
    bytes: u64,
    why: Option<String>,
}

impl From<&CompletedAttempt> for SpoolRecord {
    fn from(complete: &CompletedAttempt) -> SpoolRecord {
        let AttemptId {
            task,
            session,
            attempt,
        } = complete.attempt_id;
        let end = match &complete.end {
            AttemptEnd::Result(result) => EndRecord::Result {
                compile: result.compile.as_ref().map(Into::into),
                execute: result.execute.as_ref().map(Into::into),
                files: result.files.iter().map(Into::into).collect(),
                left_out: LeftOutRecord {
                    count: result.files_left_out.count,
                    bytes: result.files_left_out.bytes,
                    why: result.files_left_out.why.map(|why| why.as_str().into()),
                },
            },
            AttemptEnd::Broken(why) => EndRecord::Broken(why.clone()),
            AttemptEnd::PlatformFailure(why) => EndRecord::PlatformFailure(why.clone()),
        };
        SpoolRecord {
            task: task.0.into_bytes(),
            session: session.0.into_bytes(),
            attempt: attempt.0,
            form: complete.form.0,
            end,
        }
    }
}

impl SpoolRecord {
    fn into_model(self) -> Option<CompletedAttempt> {
        let end = match self.end {
            EndRecord::Result {
                compile,
                execute,
                files,
                left_out,
            } => AttemptEnd::Result(TaskResult {
                compile: convert_if_some(compile, OutcomeRecord::into_model)?,
                execute: convert_if_some(execute, OutcomeRecord::into_model)?,
                files: files
                    .into_iter()
                    .map(KeptFileRecord::into_model)
                    .collect::<Option<_>>()?,
                files_left_out: FilesLeftOut {
                    count: left_out.count,
                    bytes: left_out.bytes,
                    why: convert_if_some(left_out.why, |why| why.parse().ok())?,
                },
                judgement: None,
            }),
            EndRecord::Broken(why) => AttemptEnd::Broken(why),
            EndRecord::PlatformFailure(why) => AttemptEnd::PlatformFailure(why),
        };
        Some(CompletedAttempt {
            attempt_id: AttemptId {
                task: TaskId(Uuid::from_bytes(self.task)),
                session: SessionId(Uuid::from_bytes(self.session)),
                attempt: AttemptNumber(self.attempt),
            },
            form: TaskForm(self.form),
            end,
        })
    }
}

/// Converts the value if there is one; `None` if it cannot be converted.
fn convert_if_some<T, U>(value: Option<T>, convert: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    match value {
        Some(value) => convert(value).map(Some),
        None => Some(None),
    }
}

impl From<&Outcome> for OutcomeRecord {
    fn from(outcome: &Outcome) -> OutcomeRecord {
        OutcomeRecord {
            reason: outcome.reason.to_string(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            wall: outcome.wall,
            cpu: outcome.cpu,
            memory: outcome.memory,
            stdout: (&outcome.stdout).into(),
            stderr: (&outcome.stderr).into(),
        }
    }
}

impl OutcomeRecord {
    fn into_model(self) -> Option<Outcome> {
        Some(Outcome {
            reason: self.reason.parse().ok()?,
            exit_code: self.exit_code,
            signal: self.signal,
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            stdout: self.stdout.into(),
            stderr: self.stderr.into(),
        })
    }
}

impl From<&CapturedOutput> for OutputRecord {
    fn from(output: &CapturedOutput) -> OutputRecord {
        OutputRecord {
            head: output.head.to_vec(),
            size: output.size,
            blob: output.blob.map(|BlobHash(hash)| hash),
            truncated: output.truncated,
        }
    }
}

impl From<OutputRecord> for CapturedOutput {
    fn from(record: OutputRecord) -> CapturedOutput {
        CapturedOutput {
            head: record.head.into(),
            size: record.size,
            blob: record.blob.map(BlobHash),
            truncated: record.truncated,
        }
    }
}

impl From<&KeptFile> for KeptFileRecord {
    fn from(file: &KeptFile) -> KeptFileRecord {
        KeptFileRecord {
            path: file.path.as_str().into(),
            size: file.size,
            blob: file.blob.0,
            executable: file.executable,
        }
    }
}

impl KeptFileRecord {
    fn into_model(self) -> Option<KeptFile> {
        Some(KeptFile {
            path: WorkspacePath::of_kept_file(self.path).ok()?,
            size: self.size,
            blob: BlobHash(self.blob),
            executable: self.executable,
        })
    }
}
