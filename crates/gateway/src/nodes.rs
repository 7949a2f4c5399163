//! The API calls on nodes: lists of executors and judicators, statistics and the history.

use std::sync::Arc;

use api::{DrainRequest, ExecutorState, ExecutorsResponse, HistoryResponse, JudicatorsResponse, Stats};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use model::{HistorySpan, InvalidField};

use crate::body;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params::{self, ExecutorPath, known_parameters};
use crate::request_error::RequestError;

/// A request to drain an executor is small.
const MAX_DRAIN_BODY: u64 = 64 << 10;

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

/// Drain an executor
///
/// It ends the tasks that it has, and gets no new ones until it is resumed, also if it is restarted. If it is drained already,
/// the reason is replaced. If the server has tokens, only its operators may do this.
#[utoipa::path(
    post,
    path = "/api/v1/executors/{name}/drain",
    operation_id = "drain_executor",
    tag = "nodes",
    params(("name" = api::schema::ExecutorName, Path, description = "The executor's name")),
    request_body(content = DrainRequest, example = json!({"reason": "new disk"})),
    responses((status = 200, description = "The executor is drained", body = ExecutorState)),
)]
pub(crate) async fn drain(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
    request: Request,
) -> Result<Json<ExecutorState>, RequestError> {
    caller.require_operator()?;
    params::refuse_parameters(request.uri())?;
    body::require_json(request.headers())?;
    let limit = gateway.options.max_body.min(MAX_DRAIN_BODY);
    let DrainRequest { reason } = body::read_json(request, limit, api::parse_json).await?;
    let drained = gateway.calls.drain(name, reason, caller.user().cloned()).await?;
    Ok(Json(drained.into()))
}

/// Resume an executor
///
/// Ends the drain of the executor. If the server has tokens, only its operators may do this.
#[utoipa::path(
    post,
    path = "/api/v1/executors/{name}/resume",
    operation_id = "resume_executor",
    tag = "nodes",
    params(("name" = api::schema::ExecutorName, Path, description = "The executor's name")),
    responses((status = 200, description = "The executor is not drained", body = ExecutorState)),
)]
pub(crate) async fn resume(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    ExecutorPath(name): ExecutorPath,
    uri: Uri,
) -> Result<Json<ExecutorState>, RequestError> {
    caller.require_operator()?;
    params::refuse_parameters(&uri)?;
    let resumed = gateway.calls.resume(name).await?;
    Ok(Json(resumed.into()))
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

/// Get the history
///
/// Figures of the last hour, minute by minute, or of the last day, in periods of ten minutes: tasks added and finished, why
/// tasks failed, how long they ran, and the load. They are kept through a restart. The last period is not over yet.
#[utoipa::path(
    get,
    path = "/api/v1/history",
    operation_id = "get_history",
    tag = "nodes",
    params(("span" = Option<api::schema::HistorySpan>, Query, description = "How far back; `hour` if left out")),
    responses((status = 200, description = "The figures of all periods", body = HistoryResponse)),
)]
pub(crate) async fn history(
    State(gateway): State<Arc<Gateway>>,
    uri: Uri,
) -> Result<Json<HistoryResponse>, RequestError> {
    let span = span_parameter(&uri)?;
    Ok(Json(gateway.calls.history(span).await?.into()))
}

/// The value of `span`, which is the only query parameter of its routes.
pub(crate) fn span_parameter(uri: &Uri) -> Result<HistorySpan, InvalidField> {
    let parameters = known_parameters(uri, &["span"])?;
    match parameters.last() {
        None => Ok(HistorySpan::default()),
        Some((_, value)) => value
            .parse()
            .map_err(|problem: String| InvalidField::new("span", problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_is_read() {
        let check = |query: &str, expected: Result<HistorySpan, &str>| {
            let uri: Uri = format!("/api/v1/history?{query}").parse().unwrap();
            let found = span_parameter(&uri).map_err(|invalid| invalid.field);
            assert_eq!(found, expected.map_err(String::from), "{query}");
        };
        check("", Ok(HistorySpan::Hour));
        check("span=hour", Ok(HistorySpan::Hour));
        check("span=day", Ok(HistorySpan::Day));
        check("span=", Err("span"));
        check("span=week", Err("span"));
        check("spam=day", Err("spam"));
    }
}
