//! The format of one result in the journal: its length, a checksum, and the encoded record.
//!
//! A platform failure is written as `Broken` with one extra byte after the record. Earlier versions of the executor ignore
//! that byte and read a lost attempt; a new variant would look like the end of the journal to them.

use std::time::Duration;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, CapturedOutput, CompletedAttempt, Outcome, SessionId, TaskId,
    TaskResult,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const CHECKSUM_LEN: usize = 8;
const HEADER_LEN: usize = 4 + CHECKSUM_LEN;
const PLATFORM_FAILURE: u8 = 1;

pub(super) fn encode(complete: &CompletedAttempt) -> Vec<u8> {
    let mut record = vec![0; HEADER_LEN];
    let document = SpoolRecord::from(complete);
    // These types cannot fail to encode; an empty body would be read as damage and not as a result.
    record.extend(postcard::to_stdvec(&document).unwrap_or_default());
    if matches!(complete.end, AttemptEnd::PlatformFailure(_)) {
        record.push(PLATFORM_FAILURE);
    }
    let length = (record.len() - HEADER_LEN) as u32;
    let checksum = checksum(&record[HEADER_LEN..]);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..HEADER_LEN].copy_from_slice(&checksum);
    record
}

/// The first record and the bytes after it; `None` if there is no complete record.
pub(super) fn decode(bytes: &[u8]) -> Option<(CompletedAttempt, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER_LEN)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let (body, rest) = rest.split_at_checked(length)?;
    if checksum(body) != head[4..] {
        return None;
    }
    let (document, extra) = postcard::take_from_bytes::<SpoolRecord>(body).ok()?;
    let mut complete = document.into_model()?;
    if let (AttemptEnd::Broken(why), [PLATFORM_FAILURE]) = (&mut complete.end, extra) {
        complete.end = AttemptEnd::PlatformFailure(std::mem::take(why));
    }
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
    },
    Broken(String),
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
    stdout: (Vec<u8>, bool),
    stderr: (Vec<u8>, bool),
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
            },
            AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) => EndRecord::Broken(why.clone()),
        };
        SpoolRecord {
            task: task.0.into_bytes(),
            session: session.0.into_bytes(),
            attempt: attempt.0,
            end,
        }
    }
}

impl SpoolRecord {
    fn into_model(self) -> Option<CompletedAttempt> {
        let attempt_id = AttemptId {
            task: TaskId(Uuid::from_bytes(self.task)),
            session: SessionId(Uuid::from_bytes(self.session)),
            attempt: AttemptNumber(self.attempt),
        };
        let outcome = |document: Option<OutcomeRecord>| match document {
            Some(document) => document.into_model().map(Some),
            None => Some(None),
        };
        let end = match self.end {
            EndRecord::Result { compile, execute } => AttemptEnd::Result(TaskResult {
                compile: outcome(compile)?,
                execute: outcome(execute)?,
            }),
            EndRecord::Broken(why) => AttemptEnd::Broken(why),
        };
        Some(CompletedAttempt { attempt_id, end })
    }
}

impl From<&Outcome> for OutcomeRecord {
    fn from(outcome: &Outcome) -> OutcomeRecord {
        let captured = |captured: &CapturedOutput| (captured.bytes.to_vec(), captured.truncated);
        OutcomeRecord {
            reason: outcome.reason.to_string(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            wall: outcome.wall,
            cpu: outcome.cpu,
            memory: outcome.memory,
            stdout: captured(&outcome.stdout),
            stderr: captured(&outcome.stderr),
        }
    }
}

impl OutcomeRecord {
    fn into_model(self) -> Option<Outcome> {
        let captured = |(bytes, truncated): (Vec<u8>, bool)| CapturedOutput {
            bytes: bytes.into(),
            truncated,
        };
        Some(Outcome {
            reason: self.reason.parse().ok()?,
            exit_code: self.exit_code,
            signal: self.signal,
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            stdout: captured(self.stdout),
            stderr: captured(self.stderr),
        })
    }
}
