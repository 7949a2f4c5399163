//! Parsing the JSON of a request. Errors name the path of the wrong field.

use model::InvalidField;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;

use crate::{NewTasks, item_limits};

/// Why the JSON of a request to the HTTP API cannot be parsed.
#[derive(Debug, Error)]
pub enum ParseError {
    #[error("the body is empty; send a JSON object")]
    Empty,
    /// The text is not JSON.
    #[error("the body is not valid JSON at line {line}, column {column}: {problem}")]
    Malformed {
        line: usize,
        column: usize,
        problem: String,
    },
    /// The text is JSON with an invalid value.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
}

/// Parses JSON from an untrusted client, within the limits of `item_limits`.
pub fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, ParseError> {
    parse_bounded(json, usize::MAX)
}

/// Parses a batch of at most this many tasks.
pub fn parse_task_batch(json: &[u8], most: usize) -> Result<NewTasks, ParseError> {
    parse_bounded(json, most)
}

fn parse_bounded<T: DeserializeOwned>(json: &[u8], tasks: usize) -> Result<T, ParseError> {
    // Tracking the path takes time, so JSON is parsed a second time with it only after an error.
    let parsed = item_limits::with_budget(tasks, || serde_json::from_slice(json));
    parsed.or_else(|_| item_limits::with_budget(tasks, || parse_with_path(json)))
}

fn parse_with_path<T: DeserializeOwned>(json: &[u8]) -> Result<T, ParseError> {
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
            let path = error.path().to_string();
            let error = error.into_inner();
            Err(match error.classify() {
                Category::Data => ParseError::Invalid(invalid_field(&path, &message(&error))),
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

/// The message of serde_json without the position at its end.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_string()
}

/// An error about one field of an object that was parsed as a whole. `invalid_field` extracts the name again.
pub(crate) fn field_error<E: serde::de::Error>(name: &str, problem: &str) -> E {
    E::custom(format!("field `{name}`: {problem}"))
}

/// Extracts the names of fields from serde's messages and from those of [`field_error`].
fn invalid_field(path: &str, message: &str) -> InvalidField {
    let path = if path == "." { "" } else { path };
    if let Some(name) = message
        .strip_prefix("missing field ")
        .map(|name| name.trim_matches('`'))
    {
        return InvalidField::new(name, "is missing").within_path(path);
    }
    if let Some((name, known)) = message
        .strip_prefix("unknown field ")
        .and_then(|rest| rest.split_once(", "))
    {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return InvalidField::new(
            path_of_unknown(path, name.trim_matches('`')),
            unknown_name("field", name.trim_matches('`'), &known),
        );
    }
    if let Some((name, problem)) = message
        .strip_prefix("field `")
        .and_then(|rest| rest.split_once("`: "))
    {
        return InvalidField::new(name, problem).within_path(path);
    }
    let path = if path.is_empty() { "body" } else { path };
    if let Some((problem, limit, actual)) = split_limit_error(message) {
        return InvalidField::over_limit(path, problem, limit, actual);
    }
    InvalidField::new(path, in_words_of_json(message))
}

/// Splits a message of `item_limits` into the problem, the limit and the actual number.
fn split_limit_error(message: &str) -> Option<(&str, &str, &str)> {
    let (problem, numbers) = message.strip_suffix(')')?.split_once(" (limit ")?;
    let (limit, actual) = numbers.split_once(", actual ")?;
    Some((problem, limit, actual))
}

fn path_of_unknown(path: &str, name: &str) -> String {
    if path == name || path.ends_with(&format!(".{name}")) {
        path.to_string()
    } else {
        InvalidField::new(name, "").within_path(path).field
    }
}

/// Replaces serde's names of types by those of JSON.
fn in_words_of_json(message: &str) -> String {
    const WORDS: [(&str, &str); 3] = [
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
    ];
    WORDS
        .iter()
        .fold(message.to_string(), |text, (from, to)| text.replace(from, to))
}

/// Prefixes the field that an error about a request's JSON names with the path to the field, which may be empty.
trait WithinPath {
    fn within_path(self, path: &str) -> Self;
}

impl WithinPath for InvalidField {
    fn within_path(self, path: &str) -> InvalidField {
        if path.is_empty() { self } else { self.within(path) }
    }
}

/// The known name that is most similar to `name`, if any is similar enough to be what the user meant.
pub fn closest_match<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// The error message for a name that is not known, with a suggestion.
pub(crate) fn unknown_name(kind: &str, name: &str, known: &[&str]) -> String {
    match closest_match(name, known) {
        Some(candidate) => format!("is not a known {kind}; did you mean '{candidate}'?"),
        None => format!("is not a known {kind}; the known ones are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewTask, NewTasks};

    fn check(json: &str, field: &str, problem: &str) {
        match parse_json::<NewTask>(json.as_bytes()) {
            Err(ParseError::Invalid(invalid)) => {
                assert_eq!(invalid.field, field, "{json}: {invalid}");
                assert!(invalid.problem.contains(problem), "{json}: {invalid}");
            }
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn errors_name_the_path_of_the_wrong_field() {
        check("[]", "body", "expected a task");
        check("7", "body", "expected a task");
        check(r#"[null, "ada", 0]"#, "body", "expected a task");
        check(r#"{"execute": ["true"]}"#, "execute", "expected an execute step");
        check(
            r#"{"execute": {"command": "x", "limits": [1]}}"#,
            "execute.limits",
            "expected limits",
        );
        check(r#"{"language": "a b"}"#, "language", "may contain only");
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
            "lower-case letters",
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
        check(
            r#"{"keep": ["a", "../x"]}"#,
            "keep[1]",
            "'..' between its slashes",
        );
        check(r#"{"keep": "a"}"#, "keep", "expected a list");
        check(
            r#"{"labels": {"a b": ""}}"#,
            "labels",
            "'a b' a key may contain only",
        );
        check(r#"{"labels": {"a": 1}}"#, "labels.a", "expected a string");
        check(r#"{"group": "a/b"}"#, "group", "must not contain '/'");
        check(r#"{"attempts": "many"}"#, "attempts", "whole number");
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
    fn paths_in_a_batch_have_the_index_of_the_task() {
        let json = br#"{"tasks": [{"execute": {"command": "true"}}, {"execute": {"command": {}}}]}"#;
        match parse_json::<NewTasks>(json) {
            Err(ParseError::Invalid(invalid)) => assert_eq!(invalid.field, "tasks[1].execute.command"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn malformed_json_is_reported_with_line_and_column() {
        assert!(matches!(parse_json::<NewTask>(b" \n"), Err(ParseError::Empty)));
        let check = |json: &[u8], expected: (usize, usize)| match parse_json::<NewTask>(json) {
            Err(ParseError::Malformed { line, column, .. }) => assert_eq!((line, column), expected),
            other => panic!("{other:?}"),
        };
        check(b"{\n\"user\" 1}", (2, 8));
        check(br#"{"execute": {"command": "true"}} x"#, (1, 34));
        check(b"{\"user\": \"\xff\"}", (1, 11));
        let mut bomb = br#"{"execute": {"command": "#.to_vec();
        bomb.extend(vec![b'['; 1 << 20]);
        assert!(matches!(
            parse_json::<NewTask>(&bomb),
            Err(ParseError::Invalid(_))
        ));
        assert!(parse_json::<serde_json::Value>(&vec![b'['; 10 << 20]).is_err());
    }
}
