//! What is wrong with the form of the page Run, and which of its controls says so.

use model::{InvalidField, WAIT_ADVICE};
use rpc::CallError;
use serde::Serialize;

use super::form::control_of;
use crate::request_error::RequestError;

/// The label of the form's control for what the API calls `wait_for_executor`.
pub(super) const WAIT_LABEL: &str = "Add the task even if no executor has its language or root now";

/// An error about the form of the page Run: a message for the reader, and the control that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FormProblem {
    pub(super) control: Option<&'static str>,
    pub(super) message: String,
    #[serde(skip)]
    pub(super) status: u16,
}

impl FormProblem {
    pub(super) fn new(error: &RequestError) -> FormProblem {
        let problem = error.problem();
        let control = problem.field.as_deref().and_then(control_of);
        let message = match error {
            RequestError::Invalid(invalid) | RequestError::Call(CallError::Invalid(invalid)) => {
                message(invalid, control)
            }
            _ => problem.detail,
        };
        FormProblem {
            control,
            message,
            status: problem.status,
        }
    }
}

/// The problem, without the name of the field if the message stands beside it.
fn message(invalid: &InvalidField, control: Option<&str>) -> String {
    let tick = format!("tick “{WAIT_LABEL}” under “More”");
    let whole = invalid.to_string().replace(WAIT_ADVICE, &tick);
    let own = control.is_some_and(|control| control == invalid.field);
    match whole.strip_prefix(&format!("{}: ", invalid.field)) {
        Some(problem) if own => problem.to_string(),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_stands_beside_its_control() {
        let check = |error: RequestError, control: Option<&str>, message: &str, status: u16| {
            let problem = FormProblem::new(&error);
            assert_eq!(
                (problem.control, problem.status),
                (control, status),
                "{problem:?}"
            );
            assert!(problem.message.starts_with(message), "{problem:?}");
        };
        let field = "execute.limits.wall";
        check(
            InvalidField::over_limit(field, "is too long", "1s", "2s").into(),
            Some(field),
            "is too long (limit 1s",
            422,
        );
        let lacking = model::ToolRequirement {
            language: model::LanguageName::new("perl").ok(),
            ..Default::default()
        };
        check(
            CallError::Invalid(lacking.refusal(&[])).into(),
            Some("language"),
            "no executor has 'perl'; choose one of these: none; or tick “Add the task even if",
            422,
        );
        let call = CallError::Invalid(InvalidField::new("source.a.c", "is wrong"));
        check(call.into(), Some("source"), "source.a.c: is wrong", 422);
        check(RequestError::Malformed("x".into()), None, "x", 400);
        check(CallError::Full("x".into()).into(), None, "", 503);
    }
}
