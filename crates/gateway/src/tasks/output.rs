use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use model::{
    BlobHash, CapturedOutput, InvalidField, OutputPosition, OutputSource, StepName, StreamName, TaskResult,
};

use super::follow_output::follow_output;
use super::kept_bytes::output_bytes;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, OutputPath};
use crate::range_request::RangedContent;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;

/// Get the output of a step
///
/// The exact bytes of all that is kept: `text/plain` if they begin as UTF-8, else `application/octet-stream`. One range can
/// be requested.
///
/// With `follow`, the bytes are sent as the step writes them, from the first one or from `offset` on, until the step ends.
/// What was written before is sent first. If the attempt is lost, the connection is aborted: a new attempt begins again.
/// A step that never runs ends empty.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/{step}/{output}",
    operation_id = "get_output",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("step" = api::schema::Step, Path, description = "`compile` or `execute`"),
        ("output" = api::schema::Stream, Path, description = "`stdout` or `stderr`"),
        ("follow" = Option<api::schema::Flag>, Query, description = "`true`: send the output while it is written"),
        ("offset" = Option<u64>, Query, minimum = 0, maximum = 9007199254740991i64, description = "With `follow`: how many bytes to leave out at the beginning"),
        ("Range" = Option<api::schema::ByteRange>, Header, description = "One range of bytes; not with `follow`"),
        ("If-Range" = Option<api::schema::Etag>, Header, description = "The range is valid only for this `ETag`"),
    ),
    responses(
        (status = 200, description = "The output", content(
            (String = "text/plain"), (api::schema::Bytes = "application/octet-stream"),
        )),
        (status = 206, description = "The requested range of it", content(
            (String = "text/plain"), (api::schema::Bytes = "application/octet-stream"),
        )),
    ),
)]
pub(crate) async fn output(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    OutputPath { id, source }: OutputPath,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    if let FollowParameter::Follow { offset } = FollowParameter::read(&uri)? {
        // Once the response has begun, a task that does not exist could not be answered with 404.
        let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
        caller.check_owner(loaded).map(drop)?;
        let bytes = follow_output(gateway, quota, id, OutputPosition { source, offset });
        let headers = [
            (header::CONTENT_TYPE, TEXT),
            (header::CACHE_CONTROL, "no-store"),
            // nginx would collect the bytes before it forwards them.
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        return Ok((SAFETY, headers, Body::from_stream(bytes)).into_response());
    }
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let LoadedTask {
        task,
        permit: _permit,
    } = caller.check_owner(loaded)?;
    let output = task.result.as_ref().and_then(|result| output_of(result, source));
    let Some(output) = output else {
        return Err(RequestError::NoOutcome {
            id,
            step: source.step.as_str(),
            status: task.status,
        });
    };
    let hash = output.blob.unwrap_or_else(|| BlobHash::of(&output.head));
    let size = output.size;
    let content = RangedContent { size, hash };
    let range = content.requested_range(&method, &headers)?;
    let bytes = match method {
        Method::HEAD => futures::stream::empty().boxed(),
        _ => output_bytes(&gateway.calls, output, range.bytes(size)).await?,
    };
    let media_type = [(header::CONTENT_TYPE, media_type(&output.head))];
    Ok((SAFETY, media_type, content.respond(&range, bytes)).into_response())
}

const TEXT: &str = "text/plain; charset=utf-8";

/// A browser must not run the output of an untrusted program as a page of this site.
const SAFETY: [(HeaderName, &str); 3] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "sandbox"),
    (header::CONTENT_DISPOSITION, "inline"),
];

/// The rest of a long output is not read for it, and a character at the end of the head may be cut.
fn media_type(head: &[u8]) -> &'static str {
    let whole = &head[..head.len() - api::cut_character(head)];
    match std::str::from_utf8(whole) {
        Ok(_) => TEXT,
        Err(_) => "application/octet-stream",
    }
}

/// The query parameters of a request for the output of a step.
#[derive(Debug, PartialEq, Eq)]
enum FollowParameter {
    /// What the result keeps.
    Kept,
    /// What the step writes, from this offset on.
    Follow { offset: u64 },
}

impl FollowParameter {
    fn read(uri: &Uri) -> Result<FollowParameter, InvalidField> {
        let (mut follow, mut offset) = (false, None);
        for (name, value) in params::known_parameters(uri, &["follow", "offset"])? {
            match name.as_str() {
                "follow" => follow = params::flag("follow", &value)?,
                _ => {
                    let problem = || format!("'{value}' is not a number of bytes");
                    offset = Some(
                        value
                            .parse()
                            .map_err(|_| InvalidField::new("offset", problem()))?,
                    );
                }
            }
        }
        match (follow, offset) {
            (true, offset) => Ok(FollowParameter::Follow {
                offset: offset.unwrap_or(0),
            }),
            (false, None) => Ok(FollowParameter::Kept),
            (false, Some(_)) => Err(InvalidField::new(
                "offset",
                "is for 'follow' only; send a Range header instead",
            )),
        }
    }
}

/// One of the outputs of a result, if its step ran.
pub(super) fn output_of(result: &TaskResult, source: OutputSource) -> Option<&CapturedOutput> {
    let outcome = match source.step {
        StepName::Compile => result.compile.as_ref(),
        StepName::Execute => result.execute.as_ref(),
    };
    outcome.map(|outcome| match source.stream {
        StreamName::Stdout => &outcome.stdout,
        StreamName::Stderr => &outcome.stderr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_follower_are_read() {
        let check = |query: &str, expected: Result<FollowParameter, &str>| {
            let uri: Uri = format!("/x?{query}").parse().unwrap();
            let found = FollowParameter::read(&uri).map_err(|invalid| invalid.field);
            assert_eq!(found, expected.map_err(String::from), "{query}");
        };
        check("", Ok(FollowParameter::Kept));
        check("follow=false", Ok(FollowParameter::Kept));
        check("follow", Ok(FollowParameter::Follow { offset: 0 }));
        check("follow=true&offset=7", Ok(FollowParameter::Follow { offset: 7 }));
        check("offset=7", Err("offset"));
        check("follow=true&offset=-7", Err("offset"));
        check("follow=yes", Err("follow"));
        check("folow=true", Err("folow"));
    }

    #[test]
    fn output_that_begins_as_utf_8_is_text() {
        assert_eq!(media_type("é".as_bytes()), TEXT);
        assert_eq!(media_type(b"caf\xc3"), TEXT);
        assert_eq!(media_type(b""), TEXT);
        assert_eq!(media_type(b"\xff\xd8"), "application/octet-stream");
    }
}
