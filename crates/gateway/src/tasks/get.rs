use std::sync::Arc;
use std::time::Duration;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures::StreamExt;
use model::TaskId;

use super::answer::answer;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::loaded::Loaded;
use crate::params::{self, TaskPath};
use crate::refusal::Refusal;

/// How long the end of a task may have been told without being seen by a judicator that is asked for the task.
const LAG: Duration = Duration::from_secs(2);

/// The pause before a judicator is asked for the rest of a stream that broke off.
const FOLLOW_AGAIN: Duration = Duration::from_millis(100);

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
        caller.must_own(&gateway, &admission, id).await?;
    }
    let loaded = load_within(&gateway, &admission, id, wait).await?;
    answer(&gateway, &admission, caller.own(loaded)?).await
}

/// Waits no longer than the gateway itself lives: told to stop, it answers with the task as it is.
pub(super) async fn load_within(
    gateway: &Gateway,
    admission: &Admission,
    id: TaskId,
    wait: Option<Duration>,
) -> Result<Loaded, Refusal> {
    let mut until_seen = None;
    if let Some(wait) = wait {
        let following = tokio::time::timeout(wait, follow_to_end(gateway, admission, id));
        if let Some(Ok(followed)) = gateway.stop.run_until_cancelled(following).await {
            followed?;
            until_seen = Some(LAG);
        }
    }
    gateway.load(admission, gateway.calls.get(id, until_seen)).await
}

/// Returns when the task is done. Thousands may wait for the same task, so what comes to them must be small: its
/// events, not the task.
async fn follow_to_end(gateway: &Gateway, admission: &Admission, id: TaskId) -> Result<(), Refusal> {
    loop {
        let place = gateway.place_to_load(admission).await?;
        let mut events = gateway.calls.events(id).await?;
        // The judicator has read the task for the first of them.
        drop(place);
        while let Some(Ok(event)) = events.next().await {
            if event.status.done() {
                return Ok(());
            }
        }
        // The judicator has stopped or cannot go on; another may.
        tokio::time::sleep(FOLLOW_AGAIN).await;
    }
}
