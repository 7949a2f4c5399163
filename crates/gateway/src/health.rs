//! Health, readiness and metrics of the service.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::NO_EXECUTOR_MESSAGE;
use rpc::{CallError, Readiness};
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::http_metrics::TASKS_GAUGE;
use crate::request_error::RequestError;

/// Each judicator has two seconds for a check, so this is enough for one that hangs and a second that responds.
const JUDICATOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Check that the process is alive
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "The process is alive", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Check that tasks can be added and read
///
/// A judicator writes to its store and reads it back, at most about once per second for all callers. The response also
/// says if no executor is connected; tasks can be added nevertheless.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses((status = 200, description = "Tasks can be added and read", body = String, content_type = "text/plain")),
)]
pub(crate) async fn readyz(State(gateway): State<Arc<Gateway>>) -> Result<String, RequestError> {
    if gateway.stop.is_cancelled() {
        return Err(CallError::Unavailable("the gateway is stopping".into()).into());
    }
    match timeout(JUDICATOR_TIMEOUT, gateway.calls.check()).await {
        Ok(Ok(ready)) => Ok(readiness_text(ready)),
        // These become a 503 with their own message.
        Ok(Err(error @ (CallError::Full(_) | CallError::Busy(_) | CallError::Unavailable(_)))) => {
            Err(error.into())
        }
        // Any other error is not the fault of this request, so it becomes a 503, too.
        Ok(Err(CallError::Internal(why))) => Err(CallError::Unavailable(why).into()),
        Ok(Err(error)) => Err(CallError::Unavailable(error.to_string()).into()),
        Err(_) => {
            Err(CallError::Unavailable(format!("no judicator responded within {JUDICATOR_TIMEOUT:?}")).into())
        }
    }
}

fn readiness_text(ready: Readiness) -> String {
    match ready.executors {
        0 => format!("ready; {NO_EXECUTOR_MESSAGE}\n"),
        _ => "ready\n".to_string(),
    }
}

/// Get the metrics
///
/// Metrics of this process and the number of tasks by status, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "Metrics in the text format of Prometheus", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(gateway): State<Arc<Gateway>>) -> Response {
    // If no judicator responds, the metrics of this process are returned without the number of tasks.
    if let Ok(Ok(stats)) = timeout(JUDICATOR_TIMEOUT, gateway.calls.stats()).await {
        for status in model::TaskStatus::ALL {
            let count = stats.counts.get(&status).copied().unwrap_or(0);
            metrics::gauge!(TASKS_GAUGE, "status" => status.as_str()).set(count as f64);
        }
    }
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (headers, gateway.metrics.render()).into_response()
}
