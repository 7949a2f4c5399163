use std::sync::Arc;

use api::Judicators;
use axum::Json;
use axum::extract::State;

use crate::gateway::Gateway;
use crate::refusal::Refusal;

/// List the judicators
#[utoipa::path(
    get,
    path = "/api/v1/judicators",
    operation_id = "list_judicators",
    tag = "nodes",
    responses((status = 200, description = "Those that are known", body = Judicators)),
)]
pub(crate) async fn judicators(State(gateway): State<Arc<Gateway>>) -> Result<Json<Judicators>, Refusal> {
    let judicators = gateway.calls.judicators().await?;
    let judicators = judicators.into_iter().map(Into::into).collect();
    Ok(Json(Judicators { judicators }))
}
