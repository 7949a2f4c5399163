//! SIGHUP: tokens, secrets and the log level are read again. What cannot be read stays as it was.

use anyhow::{Context, Result};
use model::with_causes;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::log::LogLevel;
use super::secrets::Secrets;
use crate::config::Layers;

/// A SIGHUP that came before, while the node was starting, is answered too.
pub(crate) struct Reload {
    hangups: Signal,
    layers: Layers,
    level: LogLevel,
}

/// The files that are read again besides the configuration.
#[derive(Default)]
pub(crate) struct Renewed {
    tokens: Option<gateway::Tokens>,
    cluster: Option<rpc::Secret>,
    /// Read only to see whether it has changed.
    fixed: Option<rpc::Secret>,
}

impl Renewed {
    pub(crate) fn of(secrets: &Secrets) -> Renewed {
        Renewed {
            tokens: secrets.tokens.clone(),
            cluster: secrets.cluster.clone(),
            fixed: None,
        }
    }

    /// In a cluster the passwords of etcd and MongoDB are derived from the secret, so a running node keeps it.
    pub(crate) fn in_cluster(secrets: &Secrets) -> Renewed {
        Renewed {
            tokens: secrets.tokens.clone(),
            cluster: None,
            fixed: secrets.cluster.clone(),
        }
    }
}

impl Reload {
    /// Needs a runtime.
    pub(crate) fn listen(layers: Layers, level: LogLevel) -> Result<Reload> {
        let hangups = signal(SignalKind::hangup()).context("could not listen for SIGHUP")?;
        Ok(Reload {
            hangups,
            layers,
            level,
        })
    }

    /// For ever.
    pub(crate) async fn run(mut self, renewed: Renewed) {
        while self.hangups.recv().await.is_some() {
            info!("SIGHUP: reading tokens, secrets and the log level again");
            self.read_settings();
            read_files(&renewed);
        }
    }

    fn read_settings(&mut self) {
        if let Err(error) = read_log_level(&mut self.layers, &self.level) {
            error!("the settings stay as they were: {error:#}");
        }
    }
}

/// Of all settings only the log level takes effect; the others are named.
pub(crate) fn read_log_level(layers: &mut Layers, level: &LogLevel) -> Result<()> {
    let fresh = layers.again()?;
    let (old, new) = (layers.config()?.node.log, fresh.config()?.node.log);
    let mut later = layers.changed(&fresh);
    later.retain(|name| *name != "node.log");
    level.set(&new)?;
    if old.filter != new.filter {
        info!("the log level is now {}", new.filter);
    }
    if old.format != new.format {
        warn!("the format of the log changes at the next start");
    }
    if !later.is_empty() {
        warn!(
            "these settings have changed and take effect at the next start: {}",
            later.join(", ")
        );
    }
    layers.take_over("node.log", &fresh);
    Ok(())
}

fn read_files(renewed: &Renewed) {
    if let Some(tokens) = &renewed.tokens {
        match tokens.reload() {
            Ok(()) => info!("read the tokens in {} again", tokens.path().display()),
            Err(error) => error!("the tokens stay as they were: {}", with_causes(&error)),
        }
    }
    if let Some(secret) = &renewed.cluster {
        match secret.reload() {
            Ok(()) => info!("read the cluster secret in {} again", secret.path().display()),
            Err(error) => error!("the cluster secret stays as it was: {}", with_causes(&error)),
        }
    }
    if let Some(fixed) = &renewed.fixed {
        match rpc::Secret::load(fixed.path()) {
            Ok(read) if read.derive("compare") == fixed.derive("compare") => {}
            Ok(_) => error!(
                "{} has changed, but etcd and MongoDB hold passwords that were derived from the old secret, so it \
                 stays in use; put the old secret back, or this node cannot start again",
                fixed.path().display()
            ),
            Err(error) => error!("the cluster secret stays as it was: {}", with_causes(&error)),
        }
    }
}
