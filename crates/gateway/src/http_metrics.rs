//! Prometheus metrics of HTTP requests.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

use crate::quota_pool::{LimitedResource, QuotaExceeded, QuotaLimit};
use crate::request_limits::waits_for_task;

pub(crate) const TASKS_GAUGE: &str = "conclave_tasks";
/// The buckets of every `_seconds` histogram, in seconds. The process that installs the metrics recorder has to set them.
pub const DURATION_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];
const REQUESTS_COUNTER: &str = "conclave_http_requests_total";
const REQUEST_SECONDS_HISTOGRAM: &str = "conclave_http_request_seconds";

const QUOTA_EXCEEDED_COUNTER: &str = "conclave_http_exhausted_total";
const TOO_SLOW_COUNTER: &str = "conclave_http_too_slow_total";

pub(crate) fn describe() {
    describe_counter!(REQUESTS_COUNTER, "HTTP requests by route, method and status");
    describe_histogram!(
        REQUEST_SECONDS_HISTOGRAM,
        Unit::Seconds,
        "Time until the headers of an HTTP response, without requests that wait for a task"
    );
    describe_counter!(
        QUOTA_EXCEEDED_COUNTER,
        "Requests and connections refused because a limit was reached, by resource and by limit: the total, or the \
         share of one caller"
    );
    describe_counter!(
        TOO_SLOW_COUNTER,
        "Requests and connections ended because the client sent a body or read a response too slowly"
    );
    describe_gauge!(TASKS_GAUGE, "Tasks by status");
}

/// `what` is `body` or `answer`.
pub(crate) fn count_too_slow(what: &'static str) {
    metrics::counter!(TOO_SLOW_COUNTER, "what" => what).increment(1);
}

pub(crate) fn count_quota_exceeded(exceeded: QuotaExceeded) {
    let resource = match exceeded.resource {
        LimitedResource::Requests => "requests",
        LimitedResource::Uploads => "uploads",
        LimitedResource::TextSearches => "text_searches",
        LimitedResource::Waiting => "waiting",
        LimitedResource::Bytes => "bytes",
        LimitedResource::Unpacking => "unpacking",
        LimitedResource::Loading => "loading",
        LimitedResource::Connections => "connections",
        LimitedResource::SignIns => "sign_ins",
    };
    let bound = match exceeded.limit_kind {
        QuotaLimit::CallerShare => "share",
        QuotaLimit::Total => "total",
    };
    metrics::counter!(QUOTA_EXCEEDED_COUNTER, "resource" => resource, "bound" => bound).increment(1);
}

/// Middleware that counts a request and records its duration.
pub(crate) async fn record_request(request: Request, next: Next) -> Response {
    // The template of the route: the path would make a label for each task.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_string();
    let method = method_label(request.method().as_str());
    let waits = waits_for_task(request.uri());
    let begun = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_string();
    metrics::counter!(REQUESTS_COUNTER, "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    if !waits {
        metrics::histogram!(REQUEST_SECONDS_HISTOGRAM, "route" => route, "method" => method)
            .record(begun.elapsed());
    }
    response
}

/// Bounds the number of labels, as a client may send any method.
fn method_label(method: &str) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    METHODS
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}
