use std::sync::Arc;

use api::TaskWait;
use axum::extract::State;
use axum::http::Uri;
use axum::{Extension, Json};

use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Tell why a task waits
///
/// Why it has not begun to run, and how many tasks the executors that could run it take before it. The reasons are empty if it
/// runs or is done. `not_known` is the reason while the judicators have an older version.
#[utoipa::path(
    get,
    path = "/api/v1/tasks/{id}/waiting",
    operation_id = "get_task_waiting",
    tag = "tasks",
    params(("id" = api::schema::Id, Path, description = "The task's id")),
    responses((status = 200, description = "Why the task waits", body = TaskWait)),
)]
pub(crate) async fn waiting(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
) -> Result<Json<TaskWait>, RequestError> {
    params::refuse_parameters(&uri)?;
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let loaded = caller.check_owner(loaded)?;
    // The permit is held: the judicator loads the task for this call too.
    let wait = gateway.calls.waiting(id).await?;
    Ok(Json(TaskWait::new(id, loaded.task.status, &wait)))
}
