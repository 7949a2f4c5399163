//! For those who watch over the service: does it live, can it work, how much does it do.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::NO_EXECUTOR;
use rpc::{CallError, Ready};
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::measure::TASKS;
use crate::refusal::Refusal;

/// Time for a judicator that hangs and for another that answers: each has two seconds for a check.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ask whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Ask whether a task can be added and read now
///
/// A judicator writes a little to its store and reads it back, at most about once a second however many ask. The text
/// of the answer also says if no executor is connected; tasks can be added all the same.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses((status = 200, description = "It can", body = String, content_type = "text/plain")),
)]
pub(crate) async fn readyz(State(gateway): State<Arc<Gateway>>) -> Result<String, Refusal> {
    if gateway.stop.is_cancelled() {
        return Err(CallError::Unavailable("the gateway is stopping".into()).into());
    }
    match timeout(PATIENCE, gateway.calls.check()).await {
        Ok(Ok(ready)) => Ok(words(ready)),
        // Answers 503 and names what is full.
        Ok(Err(error @ (CallError::Full(_) | CallError::Busy(_) | CallError::Unavailable(_)))) => {
            Err(error.into())
        }
        // Whatever else is wrong, it is not this request.
        Ok(Err(CallError::Internal(why))) => Err(CallError::Unavailable(why).into()),
        Ok(Err(error)) => Err(CallError::Unavailable(error.to_string()).into()),
        Err(_) => Err(CallError::Unavailable(format!("no judicator answered within {PATIENCE:?}")).into()),
    }
}

fn words(ready: Ready) -> String {
    match ready.executors {
        0 => format!("ready; {NO_EXECUTOR}\n"),
        _ => "ready\n".to_string(),
    }
}

/// Get the metrics
///
/// For Prometheus: what this process has counted, and how many tasks there are now.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses((status = 200, description = "In Prometheus' text form", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(gateway): State<Arc<Gateway>>) -> Response {
    // Without a judicator the counts are left out; what this process knows itself is still worth showing.
    if let Ok(Ok(stats)) = timeout(PATIENCE, gateway.calls.stats()).await {
        for status in model::Status::ALL {
            let count = stats.counts.get(&status).copied().unwrap_or(0);
            metrics::gauge!(TASKS, "status" => status.as_str()).set(count as f64);
        }
    }
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (headers, gateway.metrics.render()).into_response()
}
