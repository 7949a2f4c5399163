use std::sync::Arc;
use std::time::Duration;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use model::TaskId;

use super::answer::answer;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::refusal::Refusal;

/// Get a task
///
/// With `wait`, answered once the task is done or the wait is over, with the task as it then is.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}",
    operation_id = "get_task",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("wait" = Option<api::schema::Wait>, Query, description = "How long to wait for the task to be done, at most: seconds, or text with a unit"),
    ),
    responses((status = 200, description = "The task as it is", body = Task)),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    Extension(admission): Extension<Admission>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
) -> Result<Response, Refusal> {
    let wait = params::wait(&uri, &gateway.options)?;
    if wait.is_some() {
        caller.must_own(&gateway, id).await?;
    }
    let task = get_within(&gateway, id, wait).await?;
    answer(&admission, caller.own(task)?).await
}

/// Waits no longer than the gateway itself lives: told to stop, it answers with the task as it is.
pub(super) async fn get_within(
    gateway: &Gateway,
    id: TaskId,
    wait: Option<Duration>,
) -> Result<model::Task, Refusal> {
    if wait.is_some() {
        let waiting = gateway.calls.get(id, wait);
        if let Some(task) = gateway.stop.run_until_cancelled(waiting).await {
            return Ok(task?);
        }
    }
    Ok(gateway.calls.get(id, None).await?)
}
