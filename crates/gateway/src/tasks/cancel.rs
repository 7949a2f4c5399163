use std::sync::Arc;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use model::{TaskId, TaskStatus};

use super::task_response::task_response;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;

/// Cancel a task
///
/// A cancelled task keeps this status for ever; if it is running, its processes are killed. Cancelling a cancelled task
/// has no effect. Cancelling a task that is done with another status is a conflict.
#[utoipa::path(
    delete,
    path = "/api/v1/tasks/{id}",
    operation_id = "cancel_task",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((status = 200, description = "The cancelled task", body = Task)),
)]
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, RequestError> {
    let loaded = cancel_task(&gateway, &quota, &caller, id).await?;
    let response = task_response(&gateway, &quota, &caller, loaded).await;
    response.map_err(|error| error.after_effect(id, "cancelled"))
}

/// Cancels a task of the caller.
pub(crate) async fn cancel_task(
    gateway: &Gateway,
    quota: &RequestQuota,
    caller: &Caller,
    id: TaskId,
) -> Result<LoadedTask, RequestError> {
    caller.require_owner(gateway, quota, id).await?;
    let loaded = gateway.load_task(quota, gateway.calls.cancel(id)).await?;
    match loaded.task.status {
        TaskStatus::Cancelled => Ok(loaded),
        status => Err(RequestError::AlreadyDone { id, status }),
    }
}
