//! `conclave run echo hello`: the command to run stands where only flags are read.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use super::Cli;

/// The same error, or one that says how to write the line, if `--` before the unknown word makes it right.
pub(super) fn explain(error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    // A flag that does not exist is not meant as a command.
    if unknown.starts_with('-') {
        return error;
    }
    let places = words
        .iter()
        .enumerate()
        .skip(2)
        .filter(|(_, word)| *word == unknown.as_str());
    for (place, _) in places {
        let mut line = words.to_vec();
        line.insert(place, "--".into());
        if Cli::try_parse_from(&line).is_ok() {
            let line: Vec<_> = line.iter().skip(1).map(quoted).collect();
            return Cli::command().error(
                ErrorKind::UnknownArgument,
                format!("put `--` before the command: conclave {}", line.join(" ")),
            );
        }
    }
    error
}

/// As a shell reads it.
fn quoted(word: &OsString) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &[&str]) -> String {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        explain(Cli::try_parse_from(&words).unwrap_err(), &words).to_string()
    }

    #[test]
    fn a_command_without_dashes_is_explained() {
        let check = |line: &[&str], expected: &str| {
            let said = said(line);
            assert!(said.contains(expected), "{said}");
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
        assert!(!said(&["conclave", "run", "--walls", "2s", "--", "true"]).contains(advice));
        assert!(!said(&["conclave", "stats", "now"]).contains(advice));
    }
}
