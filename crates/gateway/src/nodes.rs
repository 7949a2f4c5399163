//! The API calls on nodes: lists of executors and judicators, and statistics.

use std::sync::Arc;

use api::{ExecutorsResponse, JudicatorsResponse, Stats};
use axum::Json;
use axum::extract::State;

use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// List the executors
#[utoipa::path(
    get,
    path = "/api/v1/executors",
    operation_id = "list_executors",
    tag = "nodes",
    responses((status = 200, description = "Executors that are alive, and executors that were alive recently", body = ExecutorsResponse)),
)]
pub(crate) async fn executors(
    State(gateway): State<Arc<Gateway>>,
) -> Result<Json<ExecutorsResponse>, RequestError> {
    let executors = gateway.calls.executors().await?;
    let executors = executors.into_iter().map(Into::into).collect();
    Ok(Json(ExecutorsResponse { executors }))
}

/// List the judicators
#[utoipa::path(
    get,
    path = "/api/v1/judicators",
    operation_id = "list_judicators",
    tag = "nodes",
    responses((status = 200, description = "All judicators of the cluster", body = JudicatorsResponse)),
)]
pub(crate) async fn judicators(
    State(gateway): State<Arc<Gateway>>,
) -> Result<Json<JudicatorsResponse>, RequestError> {
    let judicators = gateway.calls.judicators().await?;
    let judicators = judicators.into_iter().map(Into::into).collect();
    Ok(Json(JudicatorsResponse { judicators }))
}

/// Get statistics
#[utoipa::path(
    get,
    path = "/api/v1/stats",
    operation_id = "get_stats",
    tag = "nodes",
    responses((status = 200, description = "Number of tasks by status, executors, slots, throughput", body = Stats)),
)]
pub(crate) async fn stats(State(gateway): State<Arc<Gateway>>) -> Result<Json<Stats>, RequestError> {
    Ok(Json(gateway.calls.stats().await?.into()))
}
