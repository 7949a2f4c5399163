//! A better error message for `conclave run echo hello`, where `--` is missing before the command to run.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::{CliCommand, CommandLine};

/// Returns an error that shows the corrected line if a `--` before the unknown argument makes the line valid; otherwise
/// returns the given error.
pub(super) fn suggest_double_dash(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    // An unknown flag is a typing error, not the beginning of a command.
    if unknown.starts_with('-') {
        return error;
    }
    let last = arguments
        .iter()
        .rposition(|argument| *argument == unknown.as_str())
        .unwrap_or(0);
    // The first word of the command may have been taken for a source file.
    for position in (2..=last).rev() {
        let mut line = arguments.to_vec();
        line.insert(position, "--".into());
        let is_meant = |line: CommandLine| program_of(&line).is_none_or(|program| program.exists());
        if CommandLine::try_parse_from(&line).is_ok_and(is_meant) {
            let line: Vec<_> = line.iter().skip(1).map(shell_quoted).collect();
            return CommandLine::command().error(
                ErrorKind::UnknownArgument,
                format!("put `--` before the command: conclave {}", line.join(" ")),
            );
        }
    }
    error
}

fn program_of(line: &CommandLine) -> Option<&Path> {
    match &line.command {
        CliCommand::Run(args) => args.program(),
        CliCommand::Add(args) => args.program(),
        _ => None,
    }
}

/// The argument as a shell reads it.
fn shell_quoted(argument: &OsString) -> String {
    let argument = argument.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.into_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_message(line: &[&str]) -> String {
        let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
        suggest_double_dash(CommandLine::try_parse_from(&arguments).unwrap_err(), &arguments).to_string()
    }

    #[test]
    fn a_missing_double_dash_is_suggested() {
        let check = |line: &[&str], expected: &str| {
            let message = error_message(line);
            assert!(message.contains(expected), "{message}");
        };
        let advice = "put `--` before the command: ";
        check(
            &["conclave", "run", "echo", "hello"],
            &format!("{advice}conclave run -- echo hello"),
        );
        check(
            &["conclave", "run", "--user", "echo", "echo", "a b"],
            &format!("{advice}conclave run --user echo -- echo 'a b'"),
        );
        check(
            &["conclave", "add", "--wall", "2s", "sleep", "1"],
            &format!("{advice}conclave add --wall 2s -- sleep 1"),
        );
        assert!(!error_message(&["conclave", "run", "--walls", "2s", "--", "true"]).contains(advice));
        assert!(!error_message(&["conclave", "stats", "now"]).contains(advice));
    }
}
