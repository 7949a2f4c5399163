//! What the URL says: path parts and query parameters.

use std::time::Duration;

use api::{Output, Span, Step};
use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use model::{BlobHash, Invalid, TaskId};
use percent_encoding::percent_decode_str;

use crate::Options;
use crate::refusal::Refusal;

/// The `{id}` of a route.
pub(crate) struct TaskPath(pub(crate) TaskId);

/// The `{sha256}` of a route.
pub(crate) struct BlobPath(pub(crate) BlobHash);

/// The `{id}/{step}/{output}` of a route.
pub(crate) struct OutputPath {
    pub(crate) id: TaskId,
    pub(crate) step: Step,
    pub(crate) output: Output,
}

impl<S: Send + Sync> FromRequestParts<S> for OutputPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OutputPath, Refusal> {
        let nowhere = || Refusal::NoRoute(parts.uri.path().to_string());
        let (step, output) = match parts.uri.path().rsplit('/').collect::<Vec<_>>()[..] {
            [output, step, ..] => (step, output),
            _ => return Err(nowhere()),
        };
        let step = [Step::Compile, Step::Execute]
            .into_iter()
            .find(|known| known.as_str() == step);
        let output = [Output::Stdout, Output::Stderr]
            .into_iter()
            .find(|known| known.as_str() == output);
        let (step, output) = step.zip(output).ok_or_else(nowhere)?;
        let TaskPath(id) = TaskPath::from_request_parts(parts, state).await?;
        Ok(OutputPath { id, step, output })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TaskPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<TaskPath, Refusal> {
        let text = part(parts, state, "id").await?;
        text.parse()
            .map(TaskPath)
            .map_err(|error| Invalid::new("id", format!("'{text}' {error}")).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BlobPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<BlobPath, Refusal> {
        let text = part(parts, state, "sha256").await?;
        text.parse()
            .map(BlobPath)
            .map_err(|error| Invalid::new("sha256", format!("'{text}' {error}")).into())
    }
}

async fn part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Refusal> {
    let Path(all) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
        .await
        .map_err(|_| Invalid::new(name, "is not valid UTF-8"))?;
    let found = all.into_iter().find(|(found, _)| found == name);
    Ok(found.map(|(_, value)| value).unwrap_or_default())
}

/// The parameters as they are written. One that is not UTF-8 is refused rather than guessed at.
pub(crate) fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Invalid> {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(|| Invalid::new("query", "is not valid UTF-8"))?;
            match decode(value) {
                Some(value) => Ok((name, value)),
                None => Err(Invalid::new(name, "is not valid UTF-8")),
            }
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
}

/// For routes that know no parameter: one that is ignored would mislead.
pub(crate) fn none(uri: &Uri) -> Result<(), Invalid> {
    match pairs(uri)?.into_iter().next() {
        None => Ok(()),
        Some((name, _)) => Err(Invalid::new(
            name,
            "is not a known parameter; there are none here",
        )),
    }
}

/// `?wait=`, the only parameter that a single task's routes know.
pub(crate) fn wait(uri: &Uri, options: &Options) -> Result<Option<Duration>, Invalid> {
    let mut wait = None;
    for (name, value) in pairs(uri)? {
        if name != "wait" {
            return Err(Invalid::new(
                name,
                "is not a known parameter; the only one here is 'wait'",
            ));
        }
        let Span(asked) = value
            .parse()
            .map_err(|problem: String| Invalid::new("wait", problem))?;
        wait = Some(asked.min(options.max_wait));
    }
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_and_cut() {
        let check = |query: &str, expected: Result<Option<u64>, &str>| {
            let uri: Uri = format!("/tasks?{query}").parse().unwrap();
            let found = wait(&uri, &Options::default());
            assert_eq!(
                found.map_err(|invalid| invalid.field),
                expected
                    .map(|wait| wait.map(Duration::from_millis))
                    .map_err(String::from),
                "{query}"
            );
        };
        check("", Ok(None));
        check("wait=10", Ok(Some(10_000)));
        check("wait=0.5", Ok(Some(500)));
        check("wait=250ms", Ok(Some(250)));
        check("wait=1h", Ok(Some(60_000)));
        check("wait=-1", Err("wait"));
        check("wait=", Err("wait"));
        check("wait=soon", Err("wait"));
        check("wiat=1", Err("wiat"));
    }

    #[test]
    fn parameters_are_decoded_strictly() {
        let uri = Uri::from_static("/?a=b+c%20d&e&f=%C3%BC");
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            pairs(&uri).unwrap(),
            [pair("a", "b c d"), pair("e", ""), pair("f", "ü")]
        );
        assert!(none(&uri).is_err());
        assert!(none(&Uri::from_static("/x?")).is_ok());
        assert_eq!(pairs(&Uri::from_static("/?a=%FF")).unwrap_err().field, "a");
    }
}
