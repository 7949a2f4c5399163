use std::time::Duration;

use bytes::Bytes;
use model::{CaseResult, CheckResult, Content, InvalidField, Judgement, Judging, Points};
use prost::Message;
use thiserror::Error;

use super::judging::parse_case_name;
use super::{ParseMessage, micros, parse_each, parse_optional, parse_text, proto};

/// Why the encoded results of cases (`model::Judgement::cases`) cannot be read.
#[derive(Debug, Error)]
pub enum CaseResultsError {
    #[error("the results of the cases are damaged")]
    Decode(#[from] prost::DecodeError),
    #[error("the results of the cases are not valid: {0}; is this version of Conclave too old?")]
    Invalid(#[from] InvalidField),
}

/// The form in which the results of cases are part of a [`Judgement`], within it or as a blob.
pub fn encode_case_results(results: &[CaseResult]) -> Bytes {
    let results = results.iter().cloned().map(Into::into).collect();
    proto::CaseResults { results }.encode_to_vec().into()
}

pub fn decode_case_results(encoded: &[u8]) -> Result<Vec<CaseResult>, CaseResultsError> {
    let message = proto::CaseResults::decode(encoded)?;
    check_number_of_cases("cases", message.results.len())?;
    Ok(parse_each("cases", message.results)?)
}

fn check_number_of_cases(field: &str, cases: usize) -> Result<(), InvalidField> {
    match cases > Judging::MAX_CASES {
        true => {
            let problem = "has more cases than a task can have";
            Err(InvalidField::over_limit(
                field,
                problem,
                Judging::MAX_CASES,
                cases,
            ))
        }
        false => Ok(()),
    }
}

impl From<Judgement> for proto::Judgement {
    fn from(judgement: Judgement) -> Self {
        proto::Judgement {
            verdict: judgement.verdict.to_string(),
            score: judgement.score.millionths(),
            max_score: judgement.max_score.millionths(),
            marks: judgement.marks.iter().map(ToString::to_string).collect(),
            cases: Some(judgement.cases.into()),
            max_cpu: micros(judgement.max_cpu),
            max_memory: judgement.max_memory,
        }
    }
}

impl ParseMessage<Judgement> for proto::Judgement {
    /// An unknown verdict is an error: a completed attempt that has one is left to newer judicators.
    fn parse(self) -> Result<Judgement, InvalidField> {
        check_number_of_cases("marks", self.marks.len())?;
        let marks = self.marks.iter().map(|mark| parse_text("marks", mark));
        Ok(Judgement {
            verdict: parse_text("verdict", &self.verdict)?,
            score: Points::from_millionths(self.score),
            max_score: Points::from_millionths(self.max_score),
            marks: marks.collect::<Result<_, _>>()?,
            max_cpu: Duration::from_micros(self.max_cpu),
            max_memory: self.max_memory,
            cases: parse_optional("cases", self.cases)?.unwrap_or_else(Content::empty),
        })
    }
}

impl From<CaseResult> for proto::CaseResult {
    fn from(result: CaseResult) -> Self {
        let CaseResult {
            name,
            verdict,
            points,
            execute,
            check,
        } = result;
        proto::CaseResult {
            name: name.to_string(),
            verdict: verdict.to_string(),
            points: points.millionths(),
            execute: execute.map(Into::into),
            check: check.map(Into::into),
        }
    }
}

impl ParseMessage<CaseResult> for proto::CaseResult {
    fn parse(self) -> Result<CaseResult, InvalidField> {
        Ok(CaseResult {
            name: parse_case_name("name", self.name)?,
            verdict: parse_text("verdict", &self.verdict)?,
            points: Points::from_millionths(self.points),
            execute: parse_optional("execute", self.execute)?,
            check: self.check.map(Into::into),
        })
    }
}

impl From<CheckResult> for proto::CheckResult {
    fn from(check: CheckResult) -> Self {
        let CheckResult {
            exit_code,
            message,
            judge_message,
        } = check;
        proto::CheckResult {
            exit_code,
            message,
            judge_message,
        }
    }
}

impl From<proto::CheckResult> for CheckResult {
    fn from(wire: proto::CheckResult) -> Self {
        CheckResult {
            exit_code: wire.exit_code,
            message: wire.message,
            judge_message: wire.judge_message,
        }
    }
}
