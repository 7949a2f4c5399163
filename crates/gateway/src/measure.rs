//! Counts requests and how long they take, by route.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use crate::admit::waits;

pub(crate) const TASKS: &str = "conclave_tasks";
const REQUESTS: &str = "conclave_http_requests_total";
const SECONDS: &str = "conclave_http_request_seconds";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "HTTP requests by route, method and status");
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time to the head of an HTTP answer, requests that wait for a task apart"
    );
    describe_gauge!(TASKS, "Tasks by status");
}

pub(crate) async fn measure(request: Request, next: Next) -> Response {
    // The template, not the path: a label for each task would never end.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_string();
    let method = known(request.method().as_str());
    let waits = waits(request.uri());
    let begun = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_string();
    metrics::counter!(REQUESTS, "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    if !waits {
        metrics::histogram!(SECONDS, "route" => route, "method" => method).record(begun.elapsed());
    }
    response
}

/// A client may invent methods, and each would be a new label.
fn known(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    METHODS
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}
