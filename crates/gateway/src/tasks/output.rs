use std::sync::Arc;

use api::{OutputName, StepName};
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::OutputPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;

/// Get the output of a step
///
/// The exact bytes, up to the number that is kept: `text/plain` if they are UTF-8, else `application/octet-stream`.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/{step}/{output}",
    operation_id = "get_output",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("step" = StepName, Path, description = "`compile` or `execute`"),
        ("output" = OutputName, Path, description = "`stdout` or `stderr`"),
    ),
    responses((status = 200, description = "The output", content(
        (String = "text/plain"), (api::schema::Bytes = "application/octet-stream"),
    ))),
)]
pub(crate) async fn output(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    OutputPath { id, step, output }: OutputPath,
) -> Result<Response, RequestError> {
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let LoadedTask {
        task,
        permit: _permit,
    } = caller.check_owner(loaded)?;
    let status = task.status;
    let outcome = task.result.and_then(|result| match step {
        StepName::Compile => result.compile,
        StepName::Execute => result.execute,
    });
    let Some(outcome) = outcome else {
        let step = step.as_str();
        return Err(RequestError::NoOutcome { id, step, status });
    };
    let captured = match output {
        OutputName::Stdout => outcome.stdout,
        OutputName::Stderr => outcome.stderr,
    };
    let media_type = match std::str::from_utf8(&captured.bytes) {
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    };
    let headers = [
        (header::CONTENT_TYPE, media_type),
        // A browser must not run the output of an untrusted program as a page of this site.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "sandbox"),
        (header::CONTENT_DISPOSITION, "inline"),
    ];
    // Copied, because the bytes may be a slice of the RPC message with the whole task, which is not charged.
    let bytes = Bytes::copy_from_slice(&captured.bytes);
    Ok((StatusCode::OK, headers, bytes).into_response())
}
