//! What command to run, and under which limits.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire;

/// A command for a warden to run: its arguments, environment, directory, input, limits and network. It inherits nothing
/// from the warden's environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The program and its arguments. A program name without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The complete environment of the command, in this order.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory: an absolute path that exists.
    #[serde(with = "wire::path")]
    pub directory: PathBuf,
    pub input: CommandInput,
    pub limits: CommandLimits,
    /// How many bytes of each output stream are captured; the rest is discarded. This may be more than fits into memory.
    pub max_captured_bytes: u64,
    /// The name of the network that a command in a cell may use. `None` means no network.
    pub network: Option<String>,
}

/// What a command that a warden runs reads from its standard input: given bytes or a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum CommandInput {
    /// The input itself. If it is empty, the command reads `/dev/null`.
    Bytes(#[serde(with = "wire::bytes")] Vec<u8>),
    /// An absolute path that the warden opens read-only, so that large input does not travel through the socket.
    File(#[serde(with = "wire::path")] PathBuf),
}

/// The limits that a warden enforces on one command. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct CommandLimits {
    pub wall: Option<Duration>,
    /// User and system CPU time, summed over all processes of the command.
    pub cpu: Option<Duration>,
    /// Resident bytes, summed over all processes of the command.
    pub memory: Option<u64>,
    /// Bytes written to either output stream. One more byte ends the command.
    pub output: Option<u64>,
    /// Processes and threads alive at the same time, including the first one.
    pub processes: Option<u32>,
    /// Bytes of the largest file that the command may write.
    pub file_size: Option<u64>,
    pub open_files: Option<u64>,
    pub stack: Option<u64>,
}

/// Why a [`CommandSpec`] is invalid. The owner checks it before it sends anything to the warden.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CommandSpecError {
    #[error("the command is empty; name at least a program")]
    EmptyCommand,
    #[error("argument {index} contains a NUL byte; remove it")]
    ArgumentWithNul { index: usize },
    #[error("the environment variable {name:?} has an empty name, or '=' in its name, or a NUL byte")]
    Variable { name: OsString },
    #[error("{path:?} must be an absolute path without NUL bytes")]
    Path { path: PathBuf },
    #[error("the command has an input and also a descriptor for its standard input; leave one of them out")]
    TwoInputs,
}

impl CommandInput {
    /// Bytes of memory that the input occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(_) => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }
}

impl CommandSpec {
    /// How many bytes of each output stream are captured. Output beyond its limit ends the command, so it need not be.
    pub(crate) fn max_captured(&self) -> u64 {
        let limit = self.limits.output.unwrap_or(u64::MAX);
        self.max_captured_bytes.min(limit)
    }

    pub(crate) fn check(&self) -> Result<(), CommandSpecError> {
        if self.argv.first().is_none_or(|program| program.is_empty()) {
            return Err(CommandSpecError::EmptyCommand);
        }
        if let Some(index) = self.argv.iter().position(|argument| contains_byte(argument, 0)) {
            return Err(CommandSpecError::ArgumentWithNul { index });
        }
        for (name, value) in &self.env {
            if name.is_empty()
                || contains_byte(name, b'=')
                || contains_byte(name, 0)
                || contains_byte(value, 0)
            {
                return Err(CommandSpecError::Variable { name: name.clone() });
            }
        }
        let input = match &self.input {
            CommandInput::File(path) => Some(path),
            CommandInput::Bytes(_) => None,
        };
        for path in input.into_iter().chain([&self.directory]) {
            if !path.is_absolute() || contains_byte(path.as_os_str(), 0) {
                return Err(CommandSpecError::Path { path: path.clone() });
            }
        }
        Ok(())
    }
}

fn contains_byte(text: &OsStr, byte: u8) -> bool {
    text.as_bytes().contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> CommandSpec {
        CommandSpec {
            argv: vec!["true".into()],
            env: vec![("A".into(), "b=c".into())],
            directory: "/".into(),
            input: CommandInput::Bytes(Vec::new()),
            limits: CommandLimits::default(),
            max_captured_bytes: 0,
            network: None,
        }
    }

    #[test]
    fn an_invalid_spec_is_rejected_with_its_error() {
        fn check(change: impl FnOnce(&mut CommandSpec), expected: Result<(), CommandSpecError>) {
            let mut spec = spec();
            change(&mut spec);
            assert_eq!(spec.check(), expected);
        }
        check(|_| (), Ok(()));
        check(|s| s.argv.clear(), Err(CommandSpecError::EmptyCommand));
        check(|s| s.argv[0] = "".into(), Err(CommandSpecError::EmptyCommand));
        check(
            |s| s.argv.push("a\0b".into()),
            Err(CommandSpecError::ArgumentWithNul { index: 1 }),
        );
        check(
            |s| s.env[0].0 = "A=".into(),
            Err(CommandSpecError::Variable { name: "A=".into() }),
        );
        check(
            |s| s.env[0].0 = "".into(),
            Err(CommandSpecError::Variable { name: "".into() }),
        );
        check(
            |s| s.env[0].1 = "\0".into(),
            Err(CommandSpecError::Variable { name: "A".into() }),
        );
        check(
            |s| s.directory = "x".into(),
            Err(CommandSpecError::Path { path: "x".into() }),
        );
        check(
            |s| s.input = CommandInput::File("x".into()),
            Err(CommandSpecError::Path { path: "x".into() }),
        );
    }
}
