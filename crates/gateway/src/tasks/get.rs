use std::sync::Arc;
use std::time::Duration;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures::StreamExt;
use model::TaskId;

use super::task_response::task_response;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::task_loading::LoadedTask;

/// How far a judicator may lag behind the judicator that has sent the event about the end of the task.
pub(crate) const MAX_JUDICATOR_LAG: Duration = Duration::from_secs(2);

/// The pause before an interrupted event stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

/// Get a task
///
/// With `wait`, the response is sent when the task is done or the wait is over.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}",
    operation_id = "get_task",
    tag = "tasks",
    params(
        ("id" = api::schema::Id, Path, description = "The task's id"),
        ("wait" = Option<api::schema::Wait>, Query, description = "The longest time to wait until the task is done: seconds, or text with a unit"),
    ),
    responses((status = 200, description = "The task", body = Task)),
)]
pub(crate) async fn get(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let wait = params::wait_parameter(&uri, &gateway.options)?;
    if wait.is_some() {
        caller.require_owner(&gateway, &quota, id).await?;
    }
    let loaded = load_within(&gateway, &quota, id, wait).await?;
    let loaded = caller.check_owner(loaded)?;
    task_response(&gateway, &quota, &caller, loaded).await
}

/// Loads a task when it is done or the wait is over. The wait also ends when the gateway stops.
pub(super) async fn load_within(
    gateway: &Gateway,
    quota: &RequestQuota,
    id: TaskId,
    wait: Option<Duration>,
) -> Result<LoadedTask, RequestError> {
    let mut until_seen = None;
    if let Some(wait) = wait {
        let following = tokio::time::timeout(wait, wait_until_done(gateway, quota, id));
        if let Some(Ok(followed)) = gateway.stop.run_until_cancelled(following).await {
            followed?;
            until_seen = Some(MAX_JUDICATOR_LAG);
        }
    }
    gateway.load_task(quota, gateway.calls.get(id, until_seen)).await
}

/// Returns when the task is done. Follows the events of the task, which are small, because thousands of requests may wait
/// for the same task.
async fn wait_until_done(gateway: &Gateway, quota: &RequestQuota, id: TaskId) -> Result<(), RequestError> {
    loop {
        let permit = gateway.acquire_load_permit(quota).await?;
        let mut events = gateway.calls.events(id).await?;
        // The judicator loads the task only for the first event.
        drop(permit);
        while let Some(Ok(event)) = events.next().await {
            if event.status.is_done() {
                return Ok(());
            }
        }
        // The judicator stopped or failed; the next stream may come from another one.
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}
