//! What each service does from its start to its end.
//!
//! | service | runs on | told to stop, or boot is gone |
//! |---|---|---|
//! | etcd, etcd-proxy, mongodb | one thread, whose end would end the server | the server is stopped and waited for |
//! | judicator | a thread for each core | leaves the registry, ends its calls, lets go of the store |
//! | executor | a thread for each core | as `conclave executor` |
//! | gateway | as many threads as it is told | as `conclave gateway` |

mod etcd;
mod executor;
mod gateway;
mod judicator;
mod mongodb;

use std::process::ExitCode;

use anyhow::{Context, Result};
use boot::Tether;
use supervise::Component;
use tokio_util::sync::CancellationToken;

use super::Role;
use crate::config::{Config, Layers};
use crate::node::{self, Reload, Renewed, Signals};

pub(crate) fn run(role: Role, layers: Layers) -> Result<ExitCode> {
    match role {
        Role::EtcdMember => node::run_here(layers, |config, reload| daemon(config, reload, etcd::member)),
        Role::EtcdProxy => node::run_here(layers, |config, reload| daemon(config, reload, etcd::proxy)),
        Role::Mongodb => node::run_here(layers, |config, reload| daemon(config, reload, mongodb::run)),
        Role::Judicator => node::run(layers, judicator::run),
        Role::Executor => node::run(layers, executor::run),
        Role::Gateway => node::run_gateway(layers, gateway::run),
    }
}

/// A daemon shows its server a password that was derived from the secret, so only its log level can be read again.
async fn daemon<F>(config: Config, reload: Reload, serve: impl FnOnce(Config, Tether) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let tether = tether()?;
    let mut reload = tokio::spawn(reload.run(Renewed::default()));
    tokio::select! {
        served = serve(config, tether) => served,
        ended = &mut reload => anyhow::bail!("{} failed: {ended:?}", Component::Reload),
    }
}

fn tether() -> Result<Tether> {
    Tether::from_stdin().context("could not take up the line to boot")
}

/// A token that is cancelled by the first signal, or when boot is gone. The second signal ends the process.
fn stop_on_signal(tether: Tether) -> Result<CancellationToken> {
    let mut signals = Signals::listen_with(tether)?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        // A service that no longer hears signals stops, and boot starts it again.
        let _deaf = told.clone().drop_guard();
        let (signal, _) = signals.next().await;
        tracing::info!("{signal}: stopping; a second signal stops at once");
        told.cancel();
        let (signal, number) = signals.next().await;
        tracing::warn!("{signal} again: stopping at once");
        std::process::exit(128 + number);
    });
    Ok(stop)
}
