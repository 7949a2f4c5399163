use std::sync::Arc;

use api::{Output, Step};
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::ToSchema;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::loaded::Loaded;
use crate::params::OutputPath;
use crate::refusal::Refusal;

/// The path as it is described to programs.
#[derive(ToSchema)]
#[allow(dead_code, reason = "stands for its schema only")]
#[schema(rename_all = "lowercase")]
pub(crate) enum StepName {
    Compile,
    Execute,
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "stands for its schema only")]
#[schema(rename_all = "lowercase")]
pub(crate) enum OutputName {
    Stdout,
    Stderr,
}

/// Get what a step wrote
///
/// Exactly the bytes, up to the cap: `text/plain` when they are UTF-8, else `application/octet-stream`.
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
    responses((status = 200, description = "The bytes", content(
        (String = "text/plain"), (api::schema::Bytes = "application/octet-stream"),
    ))),
)]
pub(crate) async fn output(
    State(gateway): State<Arc<Gateway>>,
    Extension(admission): Extension<Admission>,
    caller: Caller,
    OutputPath { id, step, output }: OutputPath,
) -> Result<Response, Refusal> {
    let loaded = gateway.load(&admission, gateway.calls.get(id, None)).await?;
    let Loaded { task, place: _place } = caller.own(loaded)?;
    let status = task.status;
    let outcome = task.result.and_then(|result| match step {
        Step::Compile => result.compile,
        Step::Execute => result.execute,
    });
    let Some(outcome) = outcome else {
        let step = step.as_str();
        return Err(Refusal::NoOutcome { id, step, status });
    };
    let captured = match output {
        Output::Stdout => outcome.stdout,
        Output::Stderr => outcome.stderr,
    };
    let media_type = match std::str::from_utf8(&captured.bytes) {
        Ok(_) => "text/plain; charset=utf-8",
        Err(_) => "application/octet-stream",
    };
    let headers = [
        (header::CONTENT_TYPE, media_type),
        // What a stranger's program wrote must not become a page of this site.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "sandbox"),
        (header::CONTENT_DISPOSITION, "inline"),
    ];
    // Copied, since it may be a slice of the whole task as it came from a judicator: that is not charged.
    let bytes = Bytes::copy_from_slice(&captured.bytes);
    Ok((StatusCode::OK, headers, bytes).into_response())
}
