//! What every command that runs a node needs: data folder, listeners, log, signals, and long-lived components.

mod components;
mod data_folder;
mod listen;
mod log;
mod open_files;
pub(crate) mod options;
mod ready_line;
mod reload;
mod roots;
mod secrets;
mod signals;
pub(crate) mod start;
mod start_problems;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::config::{Config, ConfigLayers};
use listen::{AccessControl, ListenRequest};

pub(crate) use components::{NodeComponent, NodeComponents};
pub(crate) use data_folder::NodeFolder;
pub(crate) use log::LogLevelHandle;
pub(crate) use ready_line::ReadyLine;
pub(crate) use reload::{ReloadOnHangup, ReloadedFiles, reload_log_level};
pub(crate) use roots::{check_configured_roots, hold_default_root, root_store};
pub(crate) use secrets::NodeSecrets;
pub(crate) use signals::{StopSignals, catch_hangups};
pub(crate) use start_problems::StartProblems;

/// Commands that run a node until they are stopped. SIGHUP makes them reload files instead of ending them.
pub(crate) const NODE_COMMANDS: [&str; 5] = ["up", "judicator", "executor", "gateway", "service"];

/// How long the runtime waits for blocking tasks at the end of the process.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a node, on one thread per core, until a signal stops it or one of its components fails.
pub(crate) fn run<F>(
    layers: ConfigLayers,
    serve: impl FnOnce(Config, ReloadOnHangup) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    run_on(Builder::new_multi_thread(), layers, serve)
}

/// Runs a gateway node on `gateway.threads` threads.
pub(crate) fn run_gateway<F>(
    layers: ConfigLayers,
    serve: impl FnOnce(Config, ReloadOnHangup) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(layers.config()?.gateway.threads.0);
    run_on(builder, layers, serve)
}

/// Runs a node on the calling thread. The kernel kills a daemon's server when the thread that started it ends.
pub(crate) fn run_on_this_thread<F>(
    layers: ConfigLayers,
    serve: impl FnOnce(Config, ReloadOnHangup) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    run_on(Builder::new_current_thread(), layers, serve)
}

fn run_on<F>(
    mut builder: Builder,
    layers: ConfigLayers,
    serve: impl FnOnce(Config, ReloadOnHangup) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let config = layers.config()?;
    let level = log_to_stderr(&config)?;
    open_files::raise_limit();
    let runtime = builder
        .enable_all()
        .build()
        .context("could not start the threads of the async runtime")?;
    let result = runtime.block_on(async {
        let reload = ReloadOnHangup::listen(layers, level)?;
        serve(config, reload).await
    });
    // Some connections may not have ended in time. Dropping them releases the store, which then closes.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    result.map(|()| ExitCode::SUCCESS)
}

pub(crate) fn log_to_stderr(config: &Config) -> Result<LogLevelHandle> {
    log::start(&config.node.log)
}

/// Opens the listener of the HTTP API. `secrets` is `None` if they could not be read; then this only checks that the address is
/// free.
pub(crate) async fn bind_http(
    config: &Config,
    secrets: Option<&NodeSecrets>,
    flag: &'static str,
) -> Result<TcpListener> {
    listen::bind(ListenRequest {
        address: &config.gateway.listen,
        service: "the HTTP API",
        flag,
        access_control: secrets.map_or(AccessControl::Authenticated, |secrets| {
            secrets.http_access_control(config)
        }),
        secret_key: "secrets.tokens_file",
    })
    .await
}

/// Opens the listener for RPC, as [`bind_http`] does.
pub(crate) async fn bind_rpc(
    config: &Config,
    secrets: Option<&NodeSecrets>,
    flag: &'static str,
) -> Result<TcpListener> {
    listen::bind(ListenRequest {
        address: &config.judicator.listen,
        service: "the judicator's RPC",
        flag,
        access_control: secrets.map_or(AccessControl::Authenticated, |secrets| {
            secrets.rpc_access_control(config)
        }),
        secret_key: "secrets.cluster_file",
    })
    .await
}
