//! What every node command needs: its folder, its addresses, its log, its signals, and its parts in order.

mod folder;
mod listen;
mod log;
mod open_files;
pub(crate) mod options;
mod parts;
mod problems;
mod reload;
mod secrets;
pub(crate) mod serving;
mod signals;
pub(crate) mod start;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::config::{Config, Layers};
use listen::{Guard, Listening};

pub(crate) use folder::Folder;
pub(crate) use log::LogLevel;
pub(crate) use parts::{Part, Parts};
pub(crate) use problems::Problems;
pub(crate) use reload::{Reload, Renewed, read_log_level};
pub(crate) use secrets::Secrets;
pub(crate) use serving::Serving;
pub(crate) use signals::{Signals, survive_hangups};

/// Commands that go on for as long as the machine does, and read their files again at SIGHUP.
pub(crate) const VERBS: [&str; 5] = ["up", "judicator", "executor", "gateway", "service"];

const LAST_WAIT: Duration = Duration::from_secs(5);

/// Runs a node until it is told to stop, or a part of it fails.
pub(crate) fn run<F>(layers: Layers, serve: impl FnOnce(Config, Reload) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    run_on(Builder::new_multi_thread(), layers, serve)
}

/// The same, on as many threads as the gateway is to have.
pub(crate) fn run_gateway<F>(layers: Layers, serve: impl FnOnce(Config, Reload) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(layers.config()?.gateway.threads.0);
    run_on(builder, layers, serve)
}

/// The same, on the thread that calls. A daemon's server ends with the thread that started it.
pub(crate) fn run_here<F>(layers: Layers, serve: impl FnOnce(Config, Reload) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    run_on(Builder::new_current_thread(), layers, serve)
}

fn run_on<F>(
    mut builder: Builder,
    layers: Layers,
    serve: impl FnOnce(Config, Reload) -> F,
) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    let config = layers.config()?;
    let level = log_to_stderr(&config)?;
    open_files::raise();
    let runtime = builder
        .enable_all()
        .build()
        .context("could not start the runtime's threads")?;
    let served = runtime.block_on(async {
        let reload = Reload::listen(layers, level)?;
        serve(config, reload).await
    });
    // What is left are connections that did not end in time. Dropping them lets go of the store, which closes.
    runtime.shutdown_timeout(LAST_WAIT);
    served.map(|()| ExitCode::SUCCESS)
}

pub(crate) fn log_to_stderr(config: &Config) -> Result<LogLevel> {
    log::start(&config.node.log)
}

/// Without secrets, because they could not be read, it is only found out whether the address can be had.
pub(crate) async fn bind_http(
    config: &Config,
    secrets: Option<&Secrets>,
    flag: &'static str,
) -> Result<TcpListener> {
    listen::bind(Listening {
        address: &config.gateway.listen,
        service: "the HTTP API",
        flag,
        guard: secrets.map_or(Guard::Asked, |secrets| secrets.http_guard(config)),
        guard_key: "secrets.tokens_file",
    })
    .await
}

/// The same for RPC.
pub(crate) async fn bind_rpc(
    config: &Config,
    secrets: Option<&Secrets>,
    flag: &'static str,
) -> Result<TcpListener> {
    listen::bind(Listening {
        address: &config.judicator.listen,
        service: "the judicator's calls",
        flag,
        guard: secrets.map_or(Guard::Asked, |secrets| secrets.rpc_guard(config)),
        guard_key: "secrets.cluster_file",
    })
    .await
}
