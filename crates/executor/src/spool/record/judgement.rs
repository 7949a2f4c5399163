//! The judgement of a judged task in its record: it follows the rest of the result.

use std::time::Duration;

use model::{AttemptEnd, BlobHash, CompletedAttempt, Content, Judgement, Points};
use serde::{Deserialize, Serialize};

/// The encoded form of a [`Judgement`] in the journal of the executor's spool.
#[derive(Serialize, Deserialize)]
struct JudgementRecord {
    verdict: String,
    /// In millionths.
    score: u64,
    max_score: u64,
    marks: Vec<String>,
    max_cpu: Duration,
    max_memory: u64,
    cases: CasesRecord,
}

/// The results of the cases in a [`JudgementRecord`].
#[derive(Serialize, Deserialize)]
enum CasesRecord {
    Inline(Vec<u8>),
    Blob([u8; 32]),
}

pub(super) fn of_end(end: &AttemptEnd) -> Option<&Judgement> {
    match end {
        AttemptEnd::Result(result) => result.judgement.as_ref(),
        AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_) => None,
    }
}

pub(super) fn encode(judgement: &Judgement) -> Vec<u8> {
    let record = JudgementRecord {
        verdict: judgement.verdict.to_string(),
        score: judgement.score.millionths(),
        max_score: judgement.max_score.millionths(),
        marks: judgement.marks.iter().map(ToString::to_string).collect(),
        max_cpu: judgement.max_cpu,
        max_memory: judgement.max_memory,
        cases: match &judgement.cases {
            Content::Inline(bytes) => CasesRecord::Inline(bytes.to_vec()),
            Content::Blob(BlobHash(hash)) => CasesRecord::Blob(*hash),
        },
    };
    // These types cannot fail to encode; an empty record would be read as damage.
    postcard::to_stdvec(&record).unwrap_or_default()
}

/// The attempt with the judgement that follows its record. `None` if the judgement is damaged.
pub(super) fn add_to(mut complete: CompletedAttempt, encoded: &[u8]) -> Option<CompletedAttempt> {
    let record: JudgementRecord = postcard::from_bytes(encoded).ok()?;
    let AttemptEnd::Result(result) = &mut complete.end else {
        return None;
    };
    let marks = record.marks.iter().map(|mark| mark.parse().ok());
    result.judgement = Some(Judgement {
        verdict: record.verdict.parse().ok()?,
        score: Points::from_millionths(record.score),
        max_score: Points::from_millionths(record.max_score),
        marks: marks.collect::<Option<_>>()?,
        max_cpu: record.max_cpu,
        max_memory: record.max_memory,
        cases: match record.cases {
            CasesRecord::Inline(bytes) => Content::Inline(bytes.into()),
            CasesRecord::Blob(hash) => Content::Blob(BlobHash(hash)),
        },
    });
    Some(complete)
}

#[cfg(test)]
mod tests {
    use model::{TaskForm, TaskResult, Verdict};

    use super::super::{decode, encode};
    use super::*;
    use crate::fixtures;

    #[test]
    fn judgements_are_read_as_they_were_written() {
        for cases in [
            Content::Inline("results".into()),
            Content::Blob(BlobHash([7; 32])),
        ] {
            let judgement = Judgement {
                verdict: Verdict::WrongAnswer,
                score: Points::from_millionths(1_500_000),
                max_score: Points::from_millionths(2_000_000),
                marks: vec![Verdict::Accepted, Verdict::WrongAnswer, Verdict::Skipped],
                max_cpu: Duration::from_millis(7),
                max_memory: 5 << 20,
                cases,
            };
            let complete = CompletedAttempt {
                attempt_id: fixtures::attempt_id(model::SessionId(uuid::Uuid::now_v7())),
                form: TaskForm::CURRENT,
                end: AttemptEnd::Result(TaskResult {
                    compile: Some(fixtures::outcome()),
                    judgement: Some(judgement),
                    ..TaskResult::default()
                }),
            };
            let mut journal = encode(&complete);
            journal.extend(encode(&complete));
            let (first, rest) = decode(&journal).unwrap();
            assert_eq!(first, complete);
            assert_eq!(decode(rest).unwrap(), (complete, [].as_slice()));
        }
    }
}
