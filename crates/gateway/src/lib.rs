//! The HTTP API and the web pages. A gateway parses requests, calls a judicator, and formats the results.
//!
//! `routes` lists every URL. A gateway has no state of its own: any gateway can serve any request, and when one dies,
//! only its requests in progress are lost.
//! This crate knows no store, no executor and no RPC protocol. It calls the judicator through [`rpc::Calls`], no matter
//! whether the judicator is in the same process or on another machine.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")
)]

mod accept_header;
mod assets;
mod blobs;
mod body;
mod caller;
mod compress_page;
mod content_disposition;
mod cross_site;
mod drain_refused_body;
#[cfg(test)]
mod fake_calls;
#[cfg(test)]
mod fake_judging;
mod gateway;
mod groups;
mod health;
mod http_metrics;
mod languages;
mod min_rate;
mod min_rate_body;
mod min_rate_stream;
mod nodes;
mod openapi;
mod options;
mod pages;
mod params;
mod problem_response;
mod problems;
mod quota_key;
mod quota_pool;
mod range_request;
mod request_error;
mod request_limits;
mod request_quota;
mod routes;
mod serve;
mod sign_in;
mod task_json;
mod task_loading;
mod tasks;
mod tokens;

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use rpc::Calls;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use http_metrics::DURATION_BUCKETS;
pub use options::{GatewayOptions, MetricsAccess};
pub use tokens::{Tokens, TokensError};

/// Serves HTTP until `stop` is cancelled. Then it accepts no more connections, ends waits and event streams, and gives
/// the requests in progress a short time to finish.
pub async fn run(
    listener: TcpListener,
    options: GatewayOptions,
    calls: Arc<dyn Calls>,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    http_metrics::describe();
    let gateway = gateway::Gateway::new(options, calls, metrics, stop);
    serve::run(listener, gateway).await
}
