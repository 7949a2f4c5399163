use std::sync::Arc;

use api::Executors;
use axum::Json;
use axum::extract::State;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// List the executors
#[utoipa::path(
    get,
    path = "/api/v1/executors",
    operation_id = "list_executors",
    tag = "nodes",
    responses((status = 200, description = "Those that are alive, and those gone not long ago", body = Executors)),
)]
pub(crate) async fn executors(State(gateway): State<Arc<Gateway>>) -> Result<Json<Executors>, Refusal> {
    let executors = gateway.calls.executors().await?;
    let executors = executors.into_iter().map(Into::into).collect();
    Ok(Json(Executors { executors }))
}
