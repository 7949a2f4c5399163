//! Errors that travel as text: to another node, into a task's `trouble`, into a log.

use std::error::Error;

/// An error with its causes, on one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("outer")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn every_cause_is_named() {
        let cause = std::fmt::Error;
        assert_eq!(with_causes(&Outer(cause)), format!("outer: {cause}"));
        assert_eq!(with_causes(&cause), cause.to_string());
    }
}
