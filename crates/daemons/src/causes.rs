//! Errors as one line of text, for boot and the log.

use std::error::Error;

/// An error with its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        // Some libraries tell the cause in their own message, too.
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: std::fmt::Error,
    }

    #[test]
    fn every_cause_is_told_once() {
        let source = std::fmt::Error;
        let told = source.to_string();
        assert_eq!(with_causes(&source), told);
        assert_eq!(
            with_causes(&Outer {
                text: "outer",
                source
            }),
            format!("outer: {told}")
        );
    }
}
