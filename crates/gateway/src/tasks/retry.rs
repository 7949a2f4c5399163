use std::sync::Arc;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use model::TaskId;
use rpc::CallError;

use super::files::load;
use super::idempotency_key::IdempotencyKey;
use super::prepare::conflict_error;
use super::task_response::task_response;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Retry a task
///
/// Adds a task with the same content as this one, which must be done. Its `retry_of` is the id of this one. In the counts of
/// a group, the new task takes the place of the old one. With an `Idempotency-Key`, it is safe to send the request again.
#[utoipa::path(
    post,
    path = "/api/v1/tasks/{id}/retry",
    operation_id = "retry_task",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("Idempotency-Key" = Option<IdempotencyKey>, Header, description = "The server derives the new task's id from the key, the user and the old id"),
    ),
    responses((status = 201, description = "The new task", body = Task, headers(("Location" = String, description = "The new task's URL")))),
)]
pub(crate) async fn retry(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RequestError> {
    params::refuse_parameters(&uri)?;
    let key = IdempotencyKey::read(&headers)?;
    let user = load(&gateway, &quota, &caller, id).await?.task.spec.user;
    let new_id = match &key {
        Some(key) => key.retrying(id).id(&user),
        None => TaskId(uuid::Uuid::now_v7()),
    };
    let added = gateway.load_task(&quota, gateway.calls.retry(id, new_id)).await;
    let added = added.map_err(|error| match error {
        RequestError::Call(CallError::Conflict(id)) => conflict_error(id, None, key.as_ref()),
        other => other,
    })?;
    let response = task_response(&gateway, &quota, &caller, added).await;
    let response = response.map_err(|error| error.after_effect(new_id, "added"))?;
    let location = [(header::LOCATION, format!("/api/v1/tasks/{new_id}"))];
    Ok((StatusCode::CREATED, location, response).into_response())
}

/// Adds a task that repeats one of the caller, and returns its id.
pub(crate) async fn retry_task(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    id: TaskId,
) -> Result<TaskId, RequestError> {
    load(gateway, quota, caller, id).await?;
    let new_id = TaskId(uuid::Uuid::now_v7());
    gateway.load_task(quota, gateway.calls.retry(id, new_id)).await?;
    Ok(new_id)
}
