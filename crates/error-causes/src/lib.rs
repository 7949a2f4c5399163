//! Formats an error and its chain of causes as one line of text.
//!
//! Errors cross process and node boundaries as text, so every crate that sends or logs one needs this. It is a crate
//! of its own because `sandbox` and `daemons` use no other crate that could hold it.

use std::error::Error;

/// The error's message, followed by the message of each cause, separated by `: `.
///
/// Some libraries repeat the message of the cause at the end of their own message; it is not appended a second time.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    /// An error with a cause and a message of the test's choice.
    #[derive(Debug, Error)]
    #[error("{message}")]
    struct ErrorWithCause {
        message: String,
        source: std::fmt::Error,
    }

    fn check(message: String, expected: String) {
        let source = std::fmt::Error;
        assert_eq!(with_causes(&ErrorWithCause { message, source }), expected);
    }

    #[test]
    fn an_error_without_a_cause_is_its_own_message() {
        assert_eq!(with_causes(&std::fmt::Error), std::fmt::Error.to_string());
    }

    #[test]
    fn each_cause_is_appended_once() {
        let cause = std::fmt::Error.to_string();
        check("outer".into(), format!("outer: {cause}"));
        check(format!("outer: {cause}"), format!("outer: {cause}"));
    }
}
