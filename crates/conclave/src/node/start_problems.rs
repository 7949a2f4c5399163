//! Collects everything that prevents a node from starting, so that the operator sees all problems at once.

use std::fmt;

use anyhow::{Error, Result};

/// The problems that prevent a node from starting, collected while it is prepared.
#[derive(Default)]
pub(crate) struct StartProblems(Vec<Error>);

/// The error of a node that cannot start for several reasons, which it lists.
#[derive(Debug)]
struct MultipleStartProblems(Vec<Error>);

impl StartProblems {
    /// Returns the value, or stores the error and returns `None`.
    pub(crate) fn collect<T, E: Into<Error>>(&mut self, result: Result<T, E>) -> Option<T> {
        match result.map_err(Into::into) {
            Ok(value) => Some(value),
            Err(error) => {
                match error.downcast() {
                    Ok(MultipleStartProblems(problems)) => self.0.extend(problems),
                    Err(error) => self.0.push(error),
                }
                None
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A single problem is returned as it is, several as a numbered list.
    pub(crate) fn into_result(mut self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(MultipleStartProblems(self.0).into()),
        }
    }
}

impl fmt::Display for MultipleStartProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} problems prevent this node from starting:", self.0.len())?;
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "\n  {}. {problem:#}", index + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for MultipleStartProblems {}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn message_of(problems: &[&str]) -> String {
        let mut collected = StartProblems::default();
        for problem in problems {
            assert_eq!(
                collected.collect::<(), _>(Err(anyhow!("{problem}").context("it"))),
                None
            );
        }
        assert_eq!(collected.collect(anyhow::Ok(1)), Some(1));
        collected
            .into_result()
            .map_or_else(|error| format!("{error:#}"), |()| String::new())
    }

    #[test]
    fn several_problems_are_one_numbered_list() {
        assert_eq!(message_of(&[]), "");
        assert_eq!(message_of(&["a"]), "it: a");
        assert_eq!(
            message_of(&["a", "b"]),
            "2 problems prevent this node from starting:\n  1. it: a\n  2. it: b"
        );
    }

    #[test]
    fn nested_lists_are_flattened() {
        let mut inner = StartProblems::default();
        inner.collect::<(), _>(Err(anyhow!("a")));
        inner.collect::<(), _>(Err(anyhow!("b")));
        let mut outer = StartProblems::default();
        outer.collect(inner.into_result());
        outer.collect::<(), _>(Err(anyhow!("c")));
        let text = format!("{:#}", outer.into_result().unwrap_err());
        assert!(text.contains("3 problems") && text.contains("3. c"), "{text}");
    }
}
