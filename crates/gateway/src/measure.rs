//! Counts requests and how long they take, by route.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use crate::admit::waits;
use crate::pool::{Bound, Exhausted, Resource};

pub(crate) const TASKS: &str = "conclave_tasks";
/// For every `_seconds` histogram, from a cached read to a task that takes its time. The recorder belongs to
/// the process, so whoever sets it up has to be told.
pub const SECONDS_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];
const REQUESTS: &str = "conclave_http_requests_total";
const SECONDS: &str = "conclave_http_request_seconds";

const EXHAUSTED: &str = "conclave_http_exhausted_total";
const TOO_SLOW: &str = "conclave_http_too_slow_total";

pub(crate) fn describe() {
    describe_counter!(REQUESTS, "HTTP requests by route, method and status");
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time to the head of an HTTP answer, requests that wait for a task apart"
    );
    describe_counter!(
        EXHAUSTED,
        "Requests and connections refused because a bound was reached, by what it is of and whether it is the total or \
         one caller's share"
    );
    describe_counter!(
        TOO_SLOW,
        "Requests and connections ended because the client sent a body or took an answer too slowly"
    );
    describe_gauge!(TASKS, "Tasks by status");
}

/// `what` is `body` or `answer`.
pub(crate) fn too_slow(what: &'static str) {
    metrics::counter!(TOO_SLOW, "what" => what).increment(1);
}

pub(crate) fn exhausted(exhausted: Exhausted) {
    let resource = match exhausted.resource {
        Resource::Requests => "requests",
        Resource::Uploads => "uploads",
        Resource::TextSearches => "text_searches",
        Resource::Waiting => "waiting",
        Resource::Bytes => "bytes",
        Resource::Unpacking => "unpacking",
        Resource::Loading => "loading",
        Resource::Connections => "connections",
    };
    let bound = match exhausted.bound {
        Bound::Share => "share",
        Bound::Total => "total",
    };
    metrics::counter!(EXHAUSTED, "resource" => resource, "bound" => bound).increment(1);
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
