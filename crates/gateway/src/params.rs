//! Parameters in the path and the query of a URL.

use std::time::Duration;

use api::HumanDuration;
use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use model::{BlobHash, ExecutorName, GroupName, InvalidField, OutputSource, ProblemName, TaskId, UserName};
use percent_encoding::percent_decode_str;

use crate::GatewayOptions;
use crate::request_error::RequestError;

/// The task id `{id}` in the path of a gateway URL, as an axum extractor.
pub(crate) struct TaskPath(pub(crate) TaskId);

/// The blob hash `{sha256}` in the path of a gateway URL, as an axum extractor.
pub(crate) struct BlobPath(pub(crate) BlobHash);

/// The path `{id}/{step}/{output}` of a gateway URL that names an output stream of a task, as an axum extractor.
pub(crate) struct OutputPath {
    pub(crate) id: TaskId,
    pub(crate) source: OutputSource,
}

/// The path `{id}/files/{path}` of a gateway URL that names a kept file of a task, as an axum extractor.
pub(crate) struct FilePath {
    pub(crate) id: TaskId,
    pub(crate) path: String,
}

/// The group `{group}` in the path of a gateway URL, as an axum extractor.
pub(crate) struct GroupPath(pub(crate) GroupName);

/// The executor `{name}` in the path of a gateway URL, as an axum extractor.
pub(crate) struct ExecutorPath(pub(crate) ExecutorName);

/// The path `{id}/cases/{index}` of a gateway URL that names a case of a task, as an axum extractor.
pub(crate) struct CasePath {
    pub(crate) id: TaskId,
    pub(crate) index: usize,
}

/// The problem `{name}` in the path of a gateway URL, as an axum extractor.
pub(crate) struct ProblemPath(pub(crate) ProblemName);

/// The path `{name}/cases/{index}` of a gateway URL that names a case of a problem, as an axum extractor.
pub(crate) struct ProblemCasePath {
    pub(crate) name: ProblemName,
    pub(crate) index: usize,
}

impl<S: Send + Sync> FromRequestParts<S> for CasePath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<CasePath, RequestError> {
        let index = index_parameter(parts, state).await?;
        let TaskPath(id) = TaskPath::from_request_parts(parts, state).await?;
        Ok(CasePath { id, index })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ProblemPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ProblemPath, RequestError> {
        let text = path_parameter(parts, state, "name").await?;
        ProblemName::new(text)
            .map(ProblemPath)
            .map_err(|error| InvalidField::new("name", error.to_string()).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ProblemCasePath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ProblemCasePath, RequestError> {
        let index = index_parameter(parts, state).await?;
        let ProblemPath(name) = ProblemPath::from_request_parts(parts, state).await?;
        Ok(ProblemCasePath { name, index })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ExecutorPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ExecutorPath, RequestError> {
        let text = path_parameter(parts, state, "name").await?;
        ExecutorName::new(text)
            .map(ExecutorPath)
            .map_err(|error| InvalidField::new("name", error.to_string()).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for FilePath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<FilePath, RequestError> {
        let path = path_parameter(parts, state, "path").await?;
        let TaskPath(id) = TaskPath::from_request_parts(parts, state).await?;
        Ok(FilePath { id, path })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for GroupPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<GroupPath, RequestError> {
        let text = path_parameter(parts, state, "group").await?;
        GroupName::new(text)
            .map(GroupPath)
            .map_err(|error| InvalidField::new("group", error.to_string()).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OutputPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OutputPath, RequestError> {
        let not_found = || RequestError::RouteNotFound(parts.uri.path().to_string());
        let (step, output) = match parts.uri.path().rsplit('/').collect::<Vec<_>>()[..] {
            [output, step, ..] => (step, output),
            _ => return Err(not_found()),
        };
        let source = OutputSource::ALL
            .into_iter()
            .find(|known| known.step.as_str() == step && known.stream.as_str() == output)
            .ok_or_else(not_found)?;
        let TaskPath(id) = TaskPath::from_request_parts(parts, state).await?;
        Ok(OutputPath { id, source })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TaskPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<TaskPath, RequestError> {
        let text = path_parameter(parts, state, "id").await?;
        text.parse()
            .map(TaskPath)
            .map_err(|error| InvalidField::new("id", format!("'{text}' {error}")).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BlobPath {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<BlobPath, RequestError> {
        let text = path_parameter(parts, state, "sha256").await?;
        text.parse()
            .map(BlobPath)
            .map_err(|error| InvalidField::new("sha256", format!("'{text}' {error}")).into())
    }
}

async fn path_parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, RequestError> {
    let Path(all) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
        .await
        .map_err(|_| InvalidField::new(name, "is not valid UTF-8"))?;
    let found = all.into_iter().find(|(found, _)| found == name);
    Ok(found.map(|(_, value)| value).unwrap_or_default())
}

/// The place of a case, from 0.
async fn index_parameter<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<usize, InvalidField> {
    let text = path_parameter(parts, state, "index").await;
    let text = text.map_err(|_| InvalidField::new("index", "is not valid UTF-8"))?;
    let problem = || format!("'{text}' is not the number of a case");
    text.parse().map_err(|_| InvalidField::new("index", problem()))
}

/// The query parameters in their order. Fails if one is not valid UTF-8.
pub(crate) fn query_parameters(uri: &Uri) -> Result<Vec<(String, String)>, InvalidField> {
    decode_pairs(uri.query().unwrap_or_default(), "query")
}

/// The fields of an HTML form in their order. Fails if one is not valid UTF-8.
pub(crate) fn form_fields(body: &str) -> Result<Vec<(String, String)>, InvalidField> {
    decode_pairs(body, "body")
}

fn decode_pairs(text: &str, place: &str) -> Result<Vec<(String, String)>, InvalidField> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name).ok_or_else(|| InvalidField::new(place, "is not valid UTF-8"))?;
            match decode(value) {
                Some(value) => Ok((name, value)),
                None => Err(InvalidField::new(name, "is not valid UTF-8")),
            }
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
}

/// For routes without query parameters. Ignoring an unknown parameter would hide a mistake of the caller.
pub(crate) fn refuse_parameters(uri: &Uri) -> Result<(), InvalidField> {
    match query_parameters(uri)?.into_iter().next() {
        None => Ok(()),
        Some((name, _)) => Err(InvalidField::new(
            name,
            "is not a known parameter; this call has no parameters",
        )),
    }
}

/// The query parameters of a route that has only these.
pub(crate) fn known_parameters(uri: &Uri, known: &[&str]) -> Result<Vec<(String, String)>, InvalidField> {
    let parameters = query_parameters(uri)?;
    match parameters
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()))
    {
        None => Ok(parameters),
        Some((name, _)) => {
            let known: Vec<_> = known.iter().map(|name| format!("'{name}'")).collect();
            let problem = format!(
                "is not a known parameter; this call has only {}",
                known.join(" and ")
            );
            Err(InvalidField::new(name, problem))
        }
    }
}

/// The value of `user`, if it is among the parameters.
pub(crate) fn user_parameter(parameters: &[(String, String)]) -> Result<Option<UserName>, InvalidField> {
    let mut values = parameters.iter().rev();
    let last = values.find(|(name, _)| name == "user");
    last.map(|(_, value)| parse_user(value)).transpose()
}

fn parse_user(value: &str) -> Result<UserName, InvalidField> {
    UserName::new(value).map_err(|error| InvalidField::new("user", error.to_string()))
}

/// A parameter that is set or not. Its name alone sets it.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool, InvalidField> {
    match value {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(InvalidField::new(name, format!("'{value}' is not true or false"))),
    }
}

/// The value of `wait`, which is the only query parameter of its routes.
pub(crate) fn wait_parameter(uri: &Uri, options: &GatewayOptions) -> Result<Option<Duration>, InvalidField> {
    let parameters = known_parameters(uri, &["wait"])?;
    let last = parameters.last();
    last.map(|(_, value)| parse_wait(value, options)).transpose()
}

fn parse_wait(value: &str, options: &GatewayOptions) -> Result<Duration, InvalidField> {
    let HumanDuration(asked) = value
        .parse()
        .map_err(|problem: String| InvalidField::new("wait", problem))?;
    Ok(asked.min(options.max_wait))
}

/// The query parameters of a call on a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupParameters {
    pub(crate) user: Option<UserName>,
    pub(crate) wait: Option<Duration>,
}

impl GroupParameters {
    /// `known` is which of `user` and `wait` the call has.
    pub(crate) fn read(
        uri: &Uri,
        known: &[&str],
        options: &GatewayOptions,
    ) -> Result<GroupParameters, InvalidField> {
        let mut parameters = GroupParameters::default();
        for (name, value) in known_parameters(uri, known)? {
            match name.as_str() {
                "wait" => parameters.wait = Some(parse_wait(&value, options)?),
                _ => parameters.user = Some(parse_user(&value)?),
            }
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_parsed_and_limited() {
        let check = |query: &str, expected: Result<Option<u64>, &str>| {
            let uri: Uri = format!("/tasks?{query}").parse().unwrap();
            let found = wait_parameter(&uri, &GatewayOptions::default());
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
    fn the_parameters_of_a_group_are_read() {
        let check = |query: &str, known: &[&str], expected: Result<GroupParameters, &str>| {
            let uri: Uri = format!("/groups/g?{query}").parse().unwrap();
            let found = GroupParameters::read(&uri, known, &GatewayOptions::default());
            assert_eq!(
                found.map_err(|invalid| invalid.field),
                expected.map_err(String::from),
                "{query}"
            );
        };
        let user = Some(UserName::new("ada").unwrap());
        let wait = Some(Duration::from_secs(10));
        check(
            "user=ada&wait=10",
            &["user", "wait"],
            Ok(GroupParameters { user, wait }),
        );
        check("", &["user"], Ok(GroupParameters::default()));
        check("user=", &["user"], Err("user"));
        check("wait=10", &["user"], Err("wait"));
        check("user=%07", &["user"], Err("user"));
    }

    #[test]
    fn parameters_are_decoded_and_must_be_utf8() {
        let uri = Uri::from_static("/?a=b+c%20d&e&f=%C3%BC");
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(
            query_parameters(&uri).unwrap(),
            [pair("a", "b c d"), pair("e", ""), pair("f", "ü")]
        );
        assert!(refuse_parameters(&uri).is_err());
        assert!(refuse_parameters(&Uri::from_static("/x?")).is_ok());
        assert_eq!(
            query_parameters(&Uri::from_static("/?a=%FF")).unwrap_err().field,
            "a"
        );
    }
}
