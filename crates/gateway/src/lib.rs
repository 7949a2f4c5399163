//! The HTTP API and the web pages: reads what people and programs send, makes the judicator's calls, shows what
//! comes back.
//!
//! `routes` has every URL on one page; each call has its own file, named by its verb. A gateway keeps nothing:
//! any of them can answer any request, and one that dies loses nothing but the requests under way.
//! This room knows no store, no executor and no RPC wire; it is handed [`rpc::Calls`] and cannot tell whether
//! the judicator is in this process or elsewhere.

mod account;
mod admission;
mod admit;
mod blobs;
mod body;
mod caller;
mod cross_site;
mod gateway;
mod health;
mod hear_out;
mod loaded;
mod measure;
mod nodes;
mod openapi;
mod options;
mod pace;
mod paced_body;
mod paced_stream;
mod pages;
mod params;
mod pool;
mod problem;
mod refusal;
mod routes;
mod serve;
mod tasks;
mod tokens;

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use rpc::Calls;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use measure::SECONDS_BUCKETS;
pub use options::{MetricsAccess, Options};
pub use tokens::{Tokens, TokensError};

/// Serves until `stop`; then takes no more connections, ends waits and event streams, and gives the requests
/// under way a short time to finish.
pub async fn run(
    listener: TcpListener,
    options: Options,
    calls: Arc<dyn Calls>,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    measure::describe();
    let gateway = gateway::Gateway::new(options, calls, metrics, stop);
    serve::run(listener, gateway).await
}
