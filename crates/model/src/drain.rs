//! Drained executors: they end the tasks that they have, and get no new ones.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{UnixTime, UserName};

/// The state of an executor that an operator has drained: it gets no new tasks until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorDrain {
    pub reason: DrainReason,
    /// The user whose token drained it. `None` if the gateway has no tokens.
    pub by: Option<UserName>,
    /// When it was drained. Draining it again replaces the reason and the user only.
    pub since: UnixTime,
}

/// Why an operator has drained an executor: one line for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainReason(String);

/// Why a text is not a valid [`DrainReason`].
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DrainReasonError {
    #[error("must not be empty: say why the executor is drained")]
    Empty,
    #[error(
        "must be at most {} characters long, this one has {actual}",
        DrainReason::MAX_CHARACTERS
    )]
    TooLong { actual: usize },
    #[error("must be one line without control characters")]
    NotOneLine,
}

impl DrainReason {
    pub const MAX_CHARACTERS: usize = 200;

    pub fn new(text: &str) -> Result<DrainReason, DrainReasonError> {
        if text.chars().all(|c| c == ' ') {
            return Err(DrainReasonError::Empty);
        }
        if text.chars().any(|c| c.is_control() || is_line_separator(c)) {
            return Err(DrainReasonError::NotOneLine);
        }
        let actual = text.chars().count();
        if actual > DrainReason::MAX_CHARACTERS {
            return Err(DrainReasonError::TooLong { actual });
        }
        Ok(DrainReason(text.to_string()))
    }

    /// The reason that a node or store of another version has written. One that is not valid here is no cause to hand tasks to
    /// a drained executor.
    pub fn recorded(text: &str) -> DrainReason {
        DrainReason::new(text).unwrap_or_else(|_| DrainReason("the reason cannot be read".into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The line and paragraph separators of Unicode are no control characters.
fn is_line_separator(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

impl FromStr for DrainReason {
    type Err = DrainReasonError;

    fn from_str(text: &str) -> Result<DrainReason, DrainReasonError> {
        DrainReason::new(text)
    }
}

impl fmt::Display for DrainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        let check = |text: &str, expected: Result<&str, DrainReasonError>| {
            let reason = DrainReason::new(text);
            assert_eq!(
                reason.as_ref().map(DrainReason::as_str),
                expected.as_ref().copied()
            );
        };
        check("new disk", Ok("new disk"));
        check(" größer\u{202e} ", Ok(" größer\u{202e} "));
        check("", Err(DrainReasonError::Empty));
        check("  ", Err(DrainReasonError::Empty));
        for two_lines in [
            "a\nb",
            "a\rb",
            "a\tb",
            "a\u{1b}[31m",
            "a\u{2028}b",
            "a\u{85}b",
            " \n ",
        ] {
            check(two_lines, Err(DrainReasonError::NotOneLine));
        }
        let longest = "é".repeat(DrainReason::MAX_CHARACTERS);
        check(&longest, Ok(&longest));
        check(
            &format!("{longest}x"),
            Err(DrainReasonError::TooLong { actual: 201 }),
        );
    }
}
