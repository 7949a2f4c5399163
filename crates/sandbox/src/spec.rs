//! What to run, and under which limits.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire;

/// One command. Nothing of the warden's own surroundings is passed on beside what stands here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// The program and its arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The whole environment of the command, in this order.
    pub env: Vec<(OsString, OsString)>,
    /// Where the command starts; absolute, and existing.
    #[serde(with = "wire::path")]
    pub directory: PathBuf,
    pub input: Input,
    pub limits: Limits,
    /// How many bytes of each output stream are kept.
    pub keep: u64,
    /// In a cell: which network it may use, by its name. Without a name there is none.
    pub network: Option<String>,
}

/// What the command reads from its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Input {
    /// No bytes at all means `/dev/null`.
    Bytes(#[serde(with = "wire::bytes")] Vec<u8>),
    /// An absolute path, opened read-only by the warden: large input does not travel through the socket.
    File(#[serde(with = "wire::path")] PathBuf),
}

/// `None` is no limit.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Limits {
    pub wall: Option<Duration>,
    /// User and system time, summed over all processes of the command.
    pub cpu: Option<Duration>,
    /// Bytes resident, summed over all processes of the command.
    pub memory: Option<u64>,
    /// Bytes written to either stream; one byte more ends the command.
    pub output: Option<u64>,
    /// Processes and threads alive at one time, the first one included.
    pub processes: Option<u32>,
    /// Bytes of the largest file that the command may write.
    pub file_size: Option<u64>,
    pub open_files: Option<u64>,
    pub stack: Option<u64>,
}

/// A spec that no operating system could run; found before anything is sent to the warden.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpecError {
    #[error("the command is empty: name at least a program")]
    EmptyCommand,
    #[error("argument {index} contains a NUL byte, which no program can be given")]
    ArgumentWithNul { index: usize },
    #[error("the environment variable {name:?} has an empty name, or '=' in its name, or a NUL byte")]
    Variable { name: OsString },
    #[error("{path:?} must be an absolute path without NUL bytes")]
    Path { path: PathBuf },
}

impl Input {
    /// Bytes of memory it takes.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(_) => 0,
        }
    }
}

impl Spec {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(SpecError::EmptyCommand);
        }
        if let Some(index) = self.argv.iter().position(|argument| has(argument, 0)) {
            return Err(SpecError::ArgumentWithNul { index });
        }
        for (name, value) in &self.env {
            if name.is_empty() || has(name, b'=') || has(name, 0) || has(value, 0) {
                return Err(SpecError::Variable { name: name.clone() });
            }
        }
        let input = match &self.input {
            Input::File(path) => Some(path),
            Input::Bytes(_) => None,
        };
        for path in input.into_iter().chain([&self.directory]) {
            if !path.is_absolute() || has(path.as_os_str(), 0) {
                return Err(SpecError::Path { path: path.clone() });
            }
        }
        Ok(())
    }
}

fn has(text: &OsStr, byte: u8) -> bool {
    text.as_bytes().contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            argv: vec!["true".into()],
            env: vec![("A".into(), "b=c".into())],
            directory: "/".into(),
            input: Input::Bytes(Vec::new()),
            limits: Limits::default(),
            keep: 0,
            network: None,
        }
    }

    #[test]
    fn a_spec_that_cannot_run_is_named() {
        fn check(change: impl FnOnce(&mut Spec), expected: Result<(), SpecError>) {
            let mut spec = spec();
            change(&mut spec);
            assert_eq!(spec.check(), expected);
        }
        check(|_| (), Ok(()));
        check(|s| s.argv.clear(), Err(SpecError::EmptyCommand));
        check(|s| s.argv[0] = "".into(), Err(SpecError::EmptyCommand));
        check(
            |s| s.argv.push("a\0b".into()),
            Err(SpecError::ArgumentWithNul { index: 1 }),
        );
        check(
            |s| s.env[0].0 = "A=".into(),
            Err(SpecError::Variable { name: "A=".into() }),
        );
        check(
            |s| s.env[0].0 = "".into(),
            Err(SpecError::Variable { name: "".into() }),
        );
        check(
            |s| s.env[0].1 = "\0".into(),
            Err(SpecError::Variable { name: "A".into() }),
        );
        check(
            |s| s.directory = "x".into(),
            Err(SpecError::Path { path: "x".into() }),
        );
        check(
            |s| s.input = Input::File("x".into()),
            Err(SpecError::Path { path: "x".into() }),
        );
    }
}
