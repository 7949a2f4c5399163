use std::sync::Arc;

use api::Stats;
use axum::Json;
use axum::extract::State;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// Get the numbers
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    operation_id = "get_stats",
    tag = "nodes",
    responses((status = 200, description = "Tasks by status, executors, slots, speed", body = Stats)),
)]
pub(crate) async fn stats(State(gateway): State<Arc<Gateway>>) -> Result<Json<Stats>, Refusal> {
    Ok(Json(gateway.calls.stats().await?.into()))
}
