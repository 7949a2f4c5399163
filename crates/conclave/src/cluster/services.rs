//! Runs one service of a cluster node.
//!
//! | service | runs on | on a stop signal, or when boot is gone |
//! |---|---|---|
//! | etcd, etcd-proxy, mongodb | one thread, because the kernel kills the server when its parent thread ends | stops the server and waits for it |
//! | judicator | one thread per core | deregisters, ends its calls, closes the store |
//! | executor | one thread per core | as `conclave executor` |
//! | gateway | `gateway.threads` threads | as `conclave gateway` |

mod executor;
mod gateway;
mod judicator;
mod server_daemons;

use std::process::ExitCode;

use anyhow::{Context, Result};
use boot::BootConnection;
use supervise::Component;
use tokio_util::sync::CancellationToken;

use super::ServiceKind;
use crate::config::{Config, ConfigLayers};
use crate::node::{self, ReloadedFiles, StopSignals};

pub(crate) fn run(service: ServiceKind, layers: ConfigLayers) -> Result<ExitCode> {
    match service {
        ServiceKind::EtcdMember => run_daemon(layers, server_daemons::etcd_member),
        ServiceKind::EtcdProxy => run_daemon(layers, server_daemons::etcd_proxy),
        ServiceKind::Mongodb => run_daemon(layers, server_daemons::mongodb),
        ServiceKind::Judicator => node::run(layers, judicator::run),
        ServiceKind::Executor => node::run(layers, executor::run),
        ServiceKind::Gateway => node::run_gateway(layers, gateway::run),
    }
}

/// Runs a daemon that starts a server. SIGHUP reloads only its log level: the server's password is derived from the secret, so
/// the secret cannot change while the server runs.
fn run_daemon<F>(layers: ConfigLayers, run: impl FnOnce(Config, BootConnection) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    node::run_on_this_thread(layers, |config, reload| async move {
        let boot_connection = boot_connection()?;
        #[expect(clippy::disallowed_methods, reason = "its end is awaited below")]
        let mut reload = tokio::spawn(reload.run(ReloadedFiles::default()));
        tokio::select! {
            result = run(config, boot_connection) => result,
            ended = &mut reload => anyhow::bail!("{} failed: {ended:?}", Component::Reload),
        }
    })
}

fn boot_connection() -> Result<BootConnection> {
    BootConnection::from_stdin().context("could not open the connection to boot")
}

/// A token that is cancelled by the first signal, or when boot is gone. A second signal ends the process.
fn stop_on_signal(boot_connection: BootConnection) -> Result<CancellationToken> {
    let mut signals = StopSignals::listen_with(boot_connection)?;
    let stop = CancellationToken::new();
    let stop_on_signal = stop.clone();
    #[expect(clippy::disallowed_methods, reason = "its end stops the service")]
    tokio::spawn(async move {
        // If this task ends or panics, the service stops and boot restarts it, because it could not be stopped otherwise.
        let _stop_on_drop = stop_on_signal.clone().drop_guard();
        let (signal, _) = signals.next().await;
        tracing::info!(signal, "stopping; a second signal stops at once");
        stop_on_signal.cancel();
        let (signal, number) = signals.next().await;
        tracing::warn!(signal, "second signal; stopping at once");
        std::process::exit(128 + number);
    });
    Ok(stop)
}
