use std::sync::Arc;

use api::Task;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use model::{Status, TaskId};

use super::answer::answer;
use crate::admission::Admission;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::loaded::Loaded;
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
    Extension(admission): Extension<Admission>,
    caller: Caller,
    TaskPath(id): TaskPath,
) -> Result<Response, Refusal> {
    let loaded = cancel_own(&gateway, &admission, &caller, id).await?;
    let answered = answer(&gateway, &admission, loaded).await;
    answered.map_err(|refusal| refusal.of_answer(id, "cancelled"))
}

pub(crate) async fn cancel_own(
    gateway: &Gateway,
    admission: &Admission,
    caller: &Caller,
    id: TaskId,
) -> Result<Loaded, Refusal> {
    caller.must_own(gateway, admission, id).await?;
    let loaded = gateway.load(admission, gateway.calls.cancel(id)).await?;
    match loaded.task.status {
        Status::Cancelled => Ok(loaded),
        status => Err(Refusal::Done { id, status }),
    }
}
