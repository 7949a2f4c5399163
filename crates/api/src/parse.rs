//! Reading JSON so that a mistake is named by its place.

use model::Invalid;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;

use crate::{NewTasks, bounds, nearest};

#[derive(Debug, Error)]
pub enum ParseError {
    #[error("the body is empty; send a JSON object")]
    Empty,
    /// It is no JSON at all.
    #[error("the body is not valid JSON at line {line}, column {column}: {problem}")]
    Malformed {
        line: usize,
        column: usize,
        problem: String,
    },
    /// It is JSON, and says something that cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads what a stranger may have sent; see `bounds` for how much it may hold.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, ParseError> {
    parse_with(json, usize::MAX)
}

/// The same for a batch of at most this many tasks.
pub fn parse_batch(json: &[u8], most: usize) -> Result<NewTasks, ParseError> {
    parse_with(json, most)
}

fn parse_with<T: DeserializeOwned>(json: &[u8], tasks: usize) -> Result<T, ParseError> {
    // Keeping track of the place costs time that only a mistake is worth: it is read a second time then.
    let read = bounds::within(tasks, || serde_json::from_slice(json));
    read.or_else(|_| bounds::within(tasks, || explain(json)))
}

fn explain<T: DeserializeOwned>(json: &[u8]) -> Result<T, ParseError> {
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err(ParseError::Empty);
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize(&mut reader) {
        Ok(value) => match reader.end() {
            Ok(()) => Ok(value),
            Err(error) => Err(malformed(&error)),
        },
        Err(error) => {
            let place = error.path().to_string();
            let error = error.into_inner();
            Err(match error.classify() {
                Category::Data => ParseError::Invalid(invalid(&place, &message(&error))),
                Category::Io | Category::Syntax | Category::Eof => malformed(&error),
            })
        }
    }
}

fn malformed(error: &serde_json::Error) -> ParseError {
    ParseError::Malformed {
        line: error.line(),
        column: error.column(),
        problem: message(error),
    }
}

/// serde_json's message without the position that it ends in.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_string()
}

/// serde says what it misses and what it does not know in words of its own; here they become fields.
fn invalid(place: &str, message: &str) -> Invalid {
    let place = if place == "." { "" } else { place };
    if let Some(name) = message
        .strip_prefix("missing field ")
        .map(|name| name.trim_matches('`'))
    {
        return Invalid::new(name, "is missing").within_place(place);
    }
    if let Some((name, known)) = message
        .strip_prefix("unknown field ")
        .and_then(|rest| rest.split_once(", "))
    {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return Invalid::new(
            place_of_unknown(place, name.trim_matches('`')),
            nearest::unknown("field", name.trim_matches('`'), &known),
        );
    }
    let place = if place.is_empty() { "body" } else { place };
    if let Some((problem, limit, actual)) = beyond(message) {
        return Invalid::beyond(place, problem, limit, actual);
    }
    Invalid::new(place, plain(message))
}

/// The problem, the limit and what there is, of a message of `bounds`.
fn beyond(message: &str) -> Option<(&str, &str, &str)> {
    let (problem, numbers) = message.strip_suffix(')')?.split_once(" (limit ")?;
    let (limit, actual) = numbers.split_once(", actual ")?;
    Some((problem, limit, actual))
}

fn place_of_unknown(place: &str, name: &str) -> String {
    if place == name || place.ends_with(&format!(".{name}")) {
        place.to_string()
    } else {
        Invalid::new(name, "").within_place(place).field
    }
}

/// The names of Rust's types mean nothing to a person who writes JSON.
fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
    ];
    WORDS
        .iter()
        .fold(message.to_string(), |text, (from, to)| text.replace(from, to))
}

trait WithinPlace {
    fn within_place(self, place: &str) -> Self;
}

impl WithinPlace for Invalid {
    fn within_place(self, place: &str) -> Invalid {
        if place.is_empty() {
            self
        } else {
            self.within(place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTask, NewTasks};

    fn check(json: &str, field: &str, problem: &str) {
        match parse::<NewTask>(json.as_bytes()) {
            Err(ParseError::Invalid(invalid)) => {
                assert_eq!(invalid.field, field, "{json}: {invalid}");
                assert!(invalid.problem.contains(problem), "{json}: {invalid}");
            }
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn mistakes_are_named_by_their_place() {
        check("{}", "execute", "is missing");
        check("[]", "body", "expected a task");
        check("7", "body", "expected a task");
        check(r#"[null, "ada", 0]"#, "body", "expected a task");
        check(r#"{"execute": ["true"]}"#, "execute", "expected an execute step");
        check(
            r#"{"execute": {"command": "x", "limits": [1]}}"#,
            "execute.limits",
            "expected limits",
        );
        check(r#"{"execute": {}}"#, "execute.command", "is missing");
        check(
            r#"{"execute": {"comand": "x"}}"#,
            "execute.comand",
            "did you mean 'command'?",
        );
        check(
            r#"{"usr": 1, "execute": {"command": "x"}}"#,
            "usr",
            "did you mean 'user'?",
        );
        check(r#"{"zzzzzzzz": 1}"#, "zzzzzzzz", "the known ones are id, user");
        check(
            r#"{"execute": {"command": 7}}"#,
            "execute.command",
            "text or a list",
        );
        check(
            r#"{"execute": {"command": ["a", 7]}}"#,
            "execute.command[1]",
            "integer `7`",
        );
        check(
            r#"{"execute": {"command": "x", "limits": {"wall": "1parsec"}}}"#,
            "execute.limits.wall",
            "unit",
        );
        check(
            r#"{"execute": {"command": "x", "limits": {"processes": -1}}}"#,
            "execute.limits.processes",
            "whole number",
        );
        check(
            r#"{"compile": {"command": "x", "limits": {"open_files": 1.5}}}"#,
            "compile.limits.open_files",
            "whole number",
        );
        for (limit, problem) in [
            (r#""file_size": "1XB""#, "unit"),
            (r#""stack": -1"#, "negative"),
            (r#""space": "much""#, "unit of size"),
        ] {
            let json = format!(r#"{{"execute": {{"command": "x", "limits": {{{limit}}}}}}}"#);
            let field = limit.split('"').nth(1).unwrap();
            check(&json, &format!("execute.limits.{field}"), problem);
        }
        check(
            r#"{"execute": {"command": "x", "limits": {"filesize": 1}}}"#,
            "execute.limits.filesize",
            "did you mean 'file_size'?",
        );
        check(
            r#"{"execute": {"command": "x", "network": "The LAN"}}"#,
            "execute.network",
            "small letters",
        );
        check(
            r#"{"compile": {"command": "x", "network": ""}}"#,
            "compile.network",
            "must not be empty",
        );
        check(
            r#"{"execute": {"command": "x", "network": true}}"#,
            "execute.network",
            "a network's name",
        );
        check(r#"{"priority": 4000000000}"#, "priority", "whole number");
        check(r#"{"id": "x"}"#, "id", "UUID");
        check(r#"{"user": ""}"#, "user", "empty");
        check(
            r#"{"source": {"lib/util.h": {"base64": "?"}}}"#,
            "source.lib/util.h.base64",
            "base64",
        );
        check(
            r#"{"source": {"../x": ""}}"#,
            "source.../x",
            "inside the workspace",
        );
        check(
            r#"{"source": {"a": "", "a": ""}}"#,
            "source",
            "'a' is given twice",
        );
        check(r#"{"source": {"a": {"blob": "00"}}}"#, "source.a.blob", "SHA-256");
        check(
            r#"{"source": {"a": {"txt": ""}}}"#,
            "source.a.txt",
            "did you mean 'text'?",
        );
        check(r#"{"source": {"a": {}}}"#, "source.a", "text, base64, blob");
        check(
            r#"{"source": {"a": {"text": "", "blob": null, "base64": ""}}}"#,
            "source.a",
            "only one of",
        );
    }

    #[test]
    fn places_in_a_batch_are_numbered() {
        let json = br#"{"tasks": [{"execute": {"command": "true"}}, {"execute": {"command": {}}}]}"#;
        match parse::<NewTasks>(json) {
            Err(ParseError::Invalid(invalid)) => assert_eq!(invalid.field, "tasks[1].execute.command"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_json_says_where() {
        assert!(matches!(parse::<NewTask>(b" \n"), Err(ParseError::Empty)));
        let check = |json: &[u8], expected: (usize, usize)| match parse::<NewTask>(json) {
            Err(ParseError::Malformed { line, column, .. }) => assert_eq!((line, column), expected),
            other => panic!("{other:?}"),
        };
        check(b"{\n\"user\" 1}", (2, 8));
        check(br#"{"execute": {"command": "true"}} x"#, (1, 34));
        check(b"{\"user\": \"\xff\"}", (1, 11));
        let mut bomb = br#"{"execute": {"command": "#.to_vec();
        bomb.extend(vec![b'['; 1 << 20]);
        assert!(matches!(parse::<NewTask>(&bomb), Err(ParseError::Invalid(_))));
        assert!(parse::<serde_json::Value>(&vec![b'['; 10 << 20]).is_err());
    }
}
