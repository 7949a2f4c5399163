//! The verdicts on a task and its cases in JSON.

use model::{CaseMark, CaseName, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Outcome, points, schema, serde_text};

/// How a case of a judged task ended. `execute` and `check` of a skipped case are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CaseResult {
    #[serde(with = "serde_text::case_name")]
    #[schema(value_type = String)]
    pub name: CaseName,
    #[serde(with = "serde_text::verdict")]
    #[schema(value_type = schema::Verdict)]
    pub verdict: Verdict,
    #[serde(with = "points::score")]
    pub points: f64,
    /// How the program ended. Its outputs are left out if the caller may not see the input of the case.
    pub execute: Option<Outcome>,
    pub check: Option<CheckResult>,
}

/// What a check says about the output of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckResult {
    /// That of the program that judges, or 42 and 43 of a comparison. Null if the program was killed.
    pub exit_code: Option<i32>,
    /// For the user who submitted the program.
    pub message: String,
    /// For the owner of the cases. Null for others.
    pub judge_message: Option<String>,
}

/// The verdict on a case of a task that still runs, as an event of the stream of a task's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaseEvent {
    /// The place of the case in its task, from 0.
    pub index: usize,
    #[serde(with = "serde_text::case_name")]
    #[schema(value_type = String)]
    pub name: CaseName,
    #[serde(with = "serde_text::verdict")]
    #[schema(value_type = schema::Verdict)]
    pub verdict: Verdict,
}

impl CaseResult {
    /// All that is known without the outcome of the case.
    pub(crate) fn of_mark(mark: CaseMark) -> CaseResult {
        let CaseMark {
            index: _,
            name,
            verdict,
        } = mark;
        CaseResult {
            name,
            verdict,
            points: 0.0,
            execute: None,
            check: None,
        }
    }

    /// Leaves out what the owner of the case alone may see. A program could write its input to its output.
    pub(crate) fn hide(&mut self, is_sample: bool) {
        if let Some(check) = &mut self.check {
            check.judge_message = None;
        }
        if let Some(execute) = self.execute.as_mut().filter(|_| !is_sample) {
            execute.hide_outputs();
        }
    }
}

impl From<model::CaseResult> for CaseResult {
    fn from(result: model::CaseResult) -> CaseResult {
        let model::CaseResult {
            name,
            verdict,
            points,
            execute,
            check,
        } = result;
        CaseResult {
            name,
            verdict,
            points: points.as_f64(),
            execute: execute.map(Into::into),
            check: check.map(Into::into),
        }
    }
}

impl From<model::CheckResult> for CheckResult {
    fn from(result: model::CheckResult) -> CheckResult {
        let model::CheckResult {
            exit_code,
            message,
            judge_message,
        } = result;
        CheckResult {
            exit_code,
            message,
            judge_message: Some(judge_message),
        }
    }
}

impl From<CaseMark> for CaseEvent {
    fn from(CaseMark { index, name, verdict }: CaseMark) -> CaseEvent {
        CaseEvent { index, name, verdict }
    }
}

#[cfg(test)]
mod tests;
