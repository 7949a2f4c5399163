//! What keeps a node from starting: all of it is found and listed at once, so that its operator has to try once only.

use std::fmt;

use anyhow::{Error, Result};

#[derive(Default)]
pub(crate) struct Problems(Vec<Error>);

/// More than one problem.
#[derive(Debug)]
struct Several(Vec<Error>);

impl Problems {
    pub(crate) fn keep<T, E: Into<Error>>(&mut self, tried: Result<T, E>) -> Option<T> {
        match tried.map_err(Into::into) {
            Ok(made) => Some(made),
            Err(error) => {
                match error.downcast() {
                    Ok(Several(problems)) => self.0.extend(problems),
                    Err(error) => self.0.push(error),
                }
                None
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One problem speaks for itself.
    pub(crate) fn refuse(mut self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(Several(self.0).into()),
        }
    }
}

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} things keep this node from starting:", self.0.len())?;
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "\n  {}. {problem:#}", index + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for Several {}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn refused(problems: &[&str]) -> String {
        let mut kept = Problems::default();
        for problem in problems {
            assert_eq!(kept.keep::<(), _>(Err(anyhow!("{problem}").context("it"))), None);
        }
        assert_eq!(kept.keep(anyhow::Ok(1)), Some(1));
        kept.refuse()
            .map_or_else(|error| format!("{error:#}"), |()| String::new())
    }

    #[test]
    fn several_problems_are_one_numbered_list() {
        assert_eq!(refused(&[]), "");
        assert_eq!(refused(&["a"]), "it: a");
        assert_eq!(
            refused(&["a", "b"]),
            "2 things keep this node from starting:\n  1. it: a\n  2. it: b"
        );
    }

    #[test]
    fn a_list_within_a_list_is_made_flat() {
        let mut inner = Problems::default();
        inner.keep::<(), _>(Err(anyhow!("a")));
        inner.keep::<(), _>(Err(anyhow!("b")));
        let mut outer = Problems::default();
        outer.keep(inner.refuse());
        outer.keep::<(), _>(Err(anyhow!("c")));
        let text = format!("{:#}", outer.refuse().unwrap_err());
        assert!(text.contains("3 things") && text.contains("3. c"), "{text}");
    }
}
