use std::sync::Arc;

use api::Task;
use axum::Json;
use axum::extract::State;
use model::{Status, TaskId};

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::TaskPath;
use crate::refusal::Refusal;

/// Cancel a task
///
/// A cancelled task never becomes anything else; if it runs, its processes are killed. Cancelling it again is
/// fine; cancelling one that is done otherwise is a conflict.
#[utoipa::path(
    delete,
    path = "/api/v1/tasks/{id}",
    operation_id = "cancel_task",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((status = 200, description = "The task, cancelled", body = Task)),
)]
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Json<Task>, Refusal> {
    Ok(Json(cancel_own(&gateway, &caller, id).await?.into()))
}

pub(crate) async fn cancel_own(
    gateway: &Gateway,
    caller: &Caller,
    id: TaskId,
) -> Result<model::Task, Refusal> {
    caller.must_own(gateway, id).await?;
    let task = gateway.calls.cancel(id).await?;
    match task.status {
        Status::Cancelled => Ok(task),
        status => Err(Refusal::Done { id, status }),
    }
}
