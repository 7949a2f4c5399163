//! Problems: cases and a check that are kept under a name, so that a task can be judged by them without knowing them.

use std::fmt;

use crate::id::check_length;
use crate::{BlobHash, Content, Judging, Limits, NameError, UnixTime, UserName};

/// The name of a problem. Names are those of the whole system: two users cannot have problems of the same name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProblemName(String);

/// The problem from which the cases of a task come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemRef {
    pub name: ProblemName,
    /// The only user who may see inputs, answers and messages of the judge.
    pub owner: UserName,
}

/// A problem: what a task that names it is judged by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeProblem {
    pub name: ProblemName,
    pub owner: UserName,
    /// For people. Empty if there is none.
    pub title: String,
    /// Limits of the execute step of every case. A task cannot change those that are set.
    pub limits: Limits,
    /// All contents are blobs, and `problem` is `None`.
    pub judging: Judging,
    pub update_time: UnixTime,
}

/// A row of the list of problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemSummary {
    pub name: ProblemName,
    pub owner: UserName,
    /// For people. Empty if there is none.
    pub title: String,
    /// The number of its cases.
    pub cases: u32,
    pub update_time: UnixTime,
}

/// Who asks to replace or remove a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemEditor {
    /// May change the problems that this user owns.
    Owner(UserName),
    /// May change all problems.
    Operator,
}

const PROBLEM_NAME_LIMIT: usize = 64;

impl ProblemName {
    pub fn new(name: impl Into<String>) -> Result<ProblemName, NameError> {
        let name = name.into();
        check_length(&name, PROBLEM_NAME_LIMIT)?;
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_valid) {
            true => Ok(ProblemName(name)),
            false => Err(NameError::ProblemCharset),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProblemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ProblemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProblemName({self})")
    }
}

impl JudgeProblem {
    /// The label that tasks of a problem have, so that its submissions can be found.
    pub const LABEL: &str = "problem";

    /// The blobs that the problem needs, each once.
    pub fn blobs(&self) -> Vec<BlobHash> {
        let mut blobs: Vec<_> = self.judging.contents().filter_map(Content::blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    pub fn summary(&self) -> ProblemSummary {
        ProblemSummary {
            name: self.name.clone(),
            owner: self.owner.clone(),
            title: self.title.clone(),
            cases: u32::try_from(self.judging.cases.len()).unwrap_or(u32::MAX),
            update_time: self.update_time,
        }
    }

    pub fn reference(&self) -> ProblemRef {
        ProblemRef {
            name: self.name.clone(),
            owner: self.owner.clone(),
        }
    }
}

impl ProblemEditor {
    /// Whether the editor may replace or remove a problem of this owner.
    pub fn may_change(&self, owner: &UserName) -> bool {
        match self {
            ProblemEditor::Owner(user) => user == owner,
            ProblemEditor::Operator => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_problems_can_be_parts_of_addresses() {
        for (name, expected) in [
            ("hello", Ok(())),
            ("A-plus_b.2", Ok(())),
            ("", Err(NameError::Empty)),
            (".hidden", Err(NameError::ProblemCharset)),
            ("a/b", Err(NameError::ProblemCharset)),
            ("a b", Err(NameError::ProblemCharset)),
        ] {
            assert_eq!(ProblemName::new(name).map(|_| ()), expected, "{name}");
        }
        assert!(ProblemName::new("x".repeat(65)).is_err());
    }
}
