//! Languages: the rows of the table that fills in the commands, names and limits that a task leaves out.

mod class_name;
mod resolve;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use class_name::SourceClasses;
pub use table::{LanguageTable, LanguageTableError};

use crate::id::check_length;
use crate::{Limits, NameError, RootName, WorkspacePath};

/// The name or an alias of a language, in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LanguageName(String);

/// A row of the language table: how programs of one language are compiled and run.
#[derive(Clone, Debug, PartialEq)]
pub struct Language {
    pub name: LanguageName,
    /// For people: "C++ 17".
    pub title: String,
    /// What has the version: "g++".
    pub compiler: String,
    pub aliases: Vec<LanguageName>,
    /// Extensions of its source files, without the dot.
    pub extensions: Vec<String>,
    /// The path of a source file that a task gives without one.
    pub source_name: WorkspacePath,
    /// A shell line with placeholders; `None` for a language without a compile step.
    pub compile: Option<String>,
    pub execute: String,
    /// An executor has the language if a shell in its cells finds all of these programs.
    pub programs: Vec<String>,
    /// A shell line whose output has the version, as its first number with a dot.
    pub version: Option<String>,
    /// The root that tasks of the language use if they name none.
    pub root: Option<RootName>,
    /// Variables of both steps.
    pub env: BTreeMap<String, String>,
    /// The class in the source decides the name of its file, and `{class}` stands for it.
    pub has_class_name: bool,
    pub limits: LanguageLimits,
    pub example: LanguageExample,
}

/// What a language changes about the operator's default limits, for steps that set none themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LanguageLimits {
    /// Multiplies the default CPU and wall time.
    pub time_factor: f64,
    /// Multiplies the default memory.
    pub memory_factor: f64,
    /// These take the place of the defaults.
    pub compile: Limits,
    pub execute: Limits,
}

/// A program of a language that shows it, and with which its installation is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageExample {
    pub source: String,
    /// What it prints if its input is [`LanguageExample::INPUT`].
    pub output: String,
}

impl LanguageExample {
    pub const INPUT: &str = "Conclave\n";
    pub const USUAL_OUTPUT: &str = "Hello, Conclave!\n";
}

impl Default for LanguageLimits {
    fn default() -> LanguageLimits {
        LanguageLimits {
            time_factor: 1.0,
            memory_factor: 1.0,
            compile: Limits::default(),
            execute: Limits::default(),
        }
    }
}

impl LanguageLimits {
    /// The defaults of a step: `own` are those of the language for this step.
    pub fn defaults(&self, own: &Limits, operator: &Limits) -> Limits {
        let time = |operator: Option<Duration>| {
            operator.map(|time| {
                Duration::try_from_secs_f64(time.as_secs_f64() * self.time_factor).unwrap_or(time)
            })
        };
        // Far below 2^53, so the conversion is exact enough.
        let memory = operator
            .memory
            .map(|bytes| (bytes as f64 * self.memory_factor) as u64);
        Limits {
            wall: own.wall.or(time(operator.wall)),
            cpu: own.cpu.or(time(operator.cpu)),
            memory: own.memory.or(memory),
            output: own.output.or(operator.output),
            processes: own.processes.or(operator.processes),
            file_size: own.file_size.or(operator.file_size),
            open_files: own.open_files.or(operator.open_files),
            stack: own.stack.or(operator.stack),
            space: own.space.or(operator.space),
        }
    }
}

const LANGUAGE_LIMIT: usize = 32;

impl LanguageName {
    /// Upper case is accepted and changed to lower case: users write `C++` and `Python`.
    pub fn new(name: impl Into<String>) -> Result<LanguageName, NameError> {
        let name = name.into().to_ascii_lowercase();
        check_length(&name, LANGUAGE_LIMIT)?;
        // No '/', which separates root and language in a queue key.
        let is_valid = |c| matches!(c, 'a'..='z' | '0'..='9' | '+' | '#' | '*' | '.' | '_' | '-');
        match name.chars().all(is_valid) {
            true => Ok(LanguageName(name)),
            false => Err(NameError::LanguageCharset),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LanguageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for LanguageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LanguageName({self})")
    }
}

impl Language {
    /// The title with the compiler and the first two numbers of its version: "C++ 17 (g++ 12.2)".
    pub fn title_with_version(&self, version: Option<&str>) -> String {
        match version {
            Some(version) => {
                let short: Vec<_> = version.split('.').take(2).collect();
                format!("{} ({} {})", self.title, self.compiler, short.join("."))
            }
            None => self.title.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_lower_case() {
        assert_eq!(LanguageName::new("C++").unwrap().as_str(), "c++");
        assert_eq!(LanguageName::new("f#").unwrap().as_str(), "f#");
        for (wrong, expected) in [
            ("", NameError::Empty),
            ("a/b", NameError::LanguageCharset),
            ("a b", NameError::LanguageCharset),
            ("é", NameError::LanguageCharset),
        ] {
            assert_eq!(LanguageName::new(wrong), Err(expected), "{wrong}");
        }
        assert!(LanguageName::new("x".repeat(33)).is_err());
    }

    #[test]
    fn factors_multiply_only_what_the_language_does_not_set() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let operator = Limits {
            wall: seconds(60),
            cpu: seconds(10),
            memory: Some(1 << 30),
            processes: Some(512),
            ..Limits::default()
        };
        let limits = LanguageLimits {
            time_factor: 2.0,
            memory_factor: 1.5,
            ..LanguageLimits::default()
        };
        let own = Limits {
            wall: seconds(7),
            processes: Some(9),
            space: Some(5),
            ..Limits::default()
        };
        let expected = Limits {
            wall: seconds(7),
            cpu: seconds(20),
            memory: Some(3 << 29),
            processes: Some(9),
            space: Some(5),
            ..Limits::default()
        };
        assert_eq!(limits.defaults(&own, &operator), expected);
        assert_eq!(
            LanguageLimits::default().defaults(&Limits::default(), &operator),
            operator
        );
    }
}
