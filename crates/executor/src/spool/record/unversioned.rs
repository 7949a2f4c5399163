//! Reads records of the first version, which releases before kept files wrote. A result holds its whole output.
//!
//! A platform failure is written as `Broken` with one extra byte after the record.

use std::time::Duration;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, CapturedOutput, CompletedAttempt, Outcome, SessionId, TaskForm,
    TaskId, TaskResult,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::convert_if_some;

const PLATFORM_FAILURE: u8 = 1;

/// A completed attempt in the journal of an executor's spool, as earlier releases wrote it.
#[derive(Serialize, Deserialize)]
struct UnversionedRecord {
    task: [u8; 16],
    session: [u8; 16],
    attempt: u32,
    end: UnversionedEnd,
}

/// How an attempt ended, in an [`UnversionedRecord`].
#[derive(Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are the large variant"
)]
enum UnversionedEnd {
    Result {
        compile: Option<UnversionedOutcome>,
        execute: Option<UnversionedOutcome>,
    },
    Broken(String),
}

/// The outcome of a step, in an [`UnversionedRecord`].
#[derive(Serialize, Deserialize)]
struct UnversionedOutcome {
    reason: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall: Duration,
    cpu: Duration,
    memory: u64,
    /// The bytes, and whether the step wrote more.
    stdout: (Vec<u8>, bool),
    stderr: (Vec<u8>, bool),
}

/// The head of an output can be longer than a result may have; the caller moves it into a blob.
pub(super) fn decode(body: &[u8]) -> Option<CompletedAttempt> {
    let (record, extra) = postcard::take_from_bytes::<UnversionedRecord>(body).ok()?;
    let end = match (record.end, extra) {
        (UnversionedEnd::Result { compile, execute }, _) => AttemptEnd::Result(TaskResult {
            compile: convert_if_some(compile, UnversionedOutcome::into_model)?,
            execute: convert_if_some(execute, UnversionedOutcome::into_model)?,
            ..TaskResult::default()
        }),
        (UnversionedEnd::Broken(why), [PLATFORM_FAILURE]) => AttemptEnd::PlatformFailure(why),
        (UnversionedEnd::Broken(why), _) => AttemptEnd::Broken(why),
    };
    Some(CompletedAttempt {
        attempt_id: AttemptId {
            task: TaskId(Uuid::from_bytes(record.task)),
            session: SessionId(Uuid::from_bytes(record.session)),
            attempt: AttemptNumber(record.attempt),
        },
        form: TaskForm::UNRECORDED,
        end,
    })
}

impl UnversionedOutcome {
    fn into_model(self) -> Option<Outcome> {
        let captured = |(bytes, truncated): (Vec<u8>, bool)| CapturedOutput {
            truncated,
            ..CapturedOutput::small(bytes)
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

#[cfg(test)]
mod tests {
    use model::OutcomeReason;

    use super::super::{HEADER_LEN, checksum, decode};
    use super::*;

    /// A record as the earlier release writes it.
    fn encode(record: &UnversionedRecord, extra: &[u8]) -> Vec<u8> {
        let body = [postcard::to_stdvec(record).unwrap().as_slice(), extra].concat();
        let length = (body.len() as u32).to_le_bytes();
        [length.as_slice(), &checksum(&body), &body].concat()
    }

    #[test]
    fn records_of_earlier_releases_are_read() {
        let long = vec![b'x'; 2 << 20];
        let record = |end| UnversionedRecord {
            task: [1; 16],
            session: [2; 16],
            attempt: 3,
            end,
        };
        let outcome = UnversionedOutcome {
            reason: "exited".into(),
            exit_code: Some(0),
            signal: None,
            wall: Duration::from_micros(5),
            cpu: Duration::from_micros(6),
            memory: 7,
            stdout: (long.clone(), true),
            stderr: (b"e".to_vec(), false),
        };
        let end = UnversionedEnd::Result {
            compile: None,
            execute: Some(outcome),
        };
        let mut journal = encode(&record(end), &[]);
        assert!(journal.len() > long.len() + HEADER_LEN);
        journal.extend(encode(&record(UnversionedEnd::Broken("hung".into())), &[]));
        journal.extend(encode(&record(UnversionedEnd::Broken("no warden".into())), &[1]));
        let mut rest = journal.as_slice();
        let mut next = || {
            let (complete, after) = decode(rest)?;
            rest = after;
            assert_eq!(complete.form, TaskForm::UNRECORDED);
            Some(complete.end)
        };
        let expected = Outcome {
            reason: OutcomeReason::Exited,
            exit_code: Some(0),
            signal: None,
            wall: Duration::from_micros(5),
            cpu: Duration::from_micros(6),
            memory: 7,
            stdout: CapturedOutput {
                truncated: true,
                ..CapturedOutput::small(long)
            },
            stderr: CapturedOutput::small("e"),
        };
        let result = TaskResult {
            execute: Some(expected),
            ..TaskResult::default()
        };
        assert_eq!(next(), Some(AttemptEnd::Result(result)));
        assert_eq!(next(), Some(AttemptEnd::Broken("hung".into())));
        assert_eq!(next(), Some(AttemptEnd::PlatformFailure("no warden".into())));
        assert_eq!(next(), None);
    }
}
