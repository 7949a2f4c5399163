//! One result in the journal: its length, a checksum, and the document.
//!
//! A platform failure is written as `Broken` with one byte behind the document. An earlier version of the executor,
//! which does not look behind it, so reads an attempt that was lost, and not the end of the journal.

use std::time::Duration;

use model::{Attempt, Captured, Complete, End, Handout, Outcome, SessionId, TaskId, TaskResult};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const CHECKSUM: usize = 8;
const HEAD: usize = 4 + CHECKSUM;
const PLATFORM_FAILURE: u8 = 1;

pub(super) fn encode(complete: &Complete) -> Vec<u8> {
    let mut record = vec![0; HEAD];
    let document = Document::from(complete);
    // The document's types cannot fail to encode; an empty record would read as damage, not as a result.
    record.extend(postcard::to_stdvec(&document).unwrap_or_default());
    if matches!(complete.end, End::PlatformFailure(_)) {
        record.push(PLATFORM_FAILURE);
    }
    let length = (record.len() - HEAD) as u32;
    let checksum = checksum(&record[HEAD..]);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..HEAD].copy_from_slice(&checksum);
    record
}

/// The first record and what comes after it; `None` where there is no whole one.
pub(super) fn decode(bytes: &[u8]) -> Option<(Complete, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let (body, rest) = rest.split_at_checked(length)?;
    if checksum(body) != head[4..] {
        return None;
    }
    let (document, behind) = postcard::take_from_bytes::<Document>(body).ok()?;
    let mut complete = document.read()?;
    if let (End::Broken(why), [PLATFORM_FAILURE]) = (&mut complete.end, behind) {
        complete.end = End::PlatformFailure(std::mem::take(why));
    }
    Some((complete, rest))
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let digest = Sha256::digest(body);
    std::array::from_fn(|index| digest[index])
}

#[derive(Serialize, Deserialize)]
struct Document {
    task: [u8; 16],
    session: [u8; 16],
    attempt: u32,
    end: EndDocument,
}

#[derive(Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
enum EndDocument {
    Result {
        compile: Option<OutcomeDocument>,
        execute: Option<OutcomeDocument>,
    },
    Broken(String),
}

#[derive(Serialize, Deserialize)]
struct OutcomeDocument {
    reason: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall: Duration,
    cpu: Duration,
    memory: u64,
    stdout: (Vec<u8>, bool),
    stderr: (Vec<u8>, bool),
}

impl From<&Complete> for Document {
    fn from(complete: &Complete) -> Document {
        let Handout {
            task,
            session,
            attempt,
        } = complete.handout;
        let end = match &complete.end {
            End::Result(result) => EndDocument::Result {
                compile: result.compile.as_ref().map(Into::into),
                execute: result.execute.as_ref().map(Into::into),
            },
            End::Broken(why) | End::PlatformFailure(why) => EndDocument::Broken(why.clone()),
        };
        Document {
            task: task.0.into_bytes(),
            session: session.0.into_bytes(),
            attempt: attempt.0,
            end,
        }
    }
}

impl Document {
    fn read(self) -> Option<Complete> {
        let handout = Handout {
            task: TaskId(Uuid::from_bytes(self.task)),
            session: SessionId(Uuid::from_bytes(self.session)),
            attempt: Attempt(self.attempt),
        };
        let outcome = |document: Option<OutcomeDocument>| match document {
            Some(document) => document.read().map(Some),
            None => Some(None),
        };
        let end = match self.end {
            EndDocument::Result { compile, execute } => End::Result(TaskResult {
                compile: outcome(compile)?,
                execute: outcome(execute)?,
            }),
            EndDocument::Broken(why) => End::Broken(why),
        };
        Some(Complete { handout, end })
    }
}

impl From<&Outcome> for OutcomeDocument {
    fn from(outcome: &Outcome) -> OutcomeDocument {
        let captured = |captured: &Captured| (captured.bytes.to_vec(), captured.truncated);
        OutcomeDocument {
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

impl OutcomeDocument {
    fn read(self) -> Option<Outcome> {
        let captured = |(bytes, truncated): (Vec<u8>, bool)| Captured {
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
