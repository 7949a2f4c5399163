//! The API calls on languages and roots.

use std::sync::Arc;

use api::{LanguagesResponse, RootsResponse};
use axum::Json;
use axum::extract::State;

use crate::gateway::Gateway;
use crate::request_error::RequestError;

/// List the languages
///
/// The language table, with the executors that have each language now. A task may name any of these languages; one that no
/// executor has had within the last hour is refused, unless the task has `wait_for_executor`.
#[utoipa::path(
    get,
    path = "/api/v1/languages",
    operation_id = "list_languages",
    tag = "nodes",
    responses((status = 200, description = "All languages of the table", body = LanguagesResponse)),
)]
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
) -> Result<Json<LanguagesResponse>, RequestError> {
    let table = gateway.calls.languages().await?;
    let executors = gateway.calls.executors().await?;
    Ok(Json(LanguagesResponse::new(table, &executors)))
}

/// List the roots
///
/// The named root file systems that executors have now.
#[utoipa::path(
    get,
    path = "/api/v1/roots",
    operation_id = "list_roots",
    tag = "nodes",
    responses((status = 200, description = "The root file systems of all executors", body = RootsResponse)),
)]
pub(crate) async fn roots(State(gateway): State<Arc<Gateway>>) -> Result<Json<RootsResponse>, RequestError> {
    let executors = gateway.calls.executors().await?;
    Ok(Json(RootsResponse::new(&executors)))
}
