//! Reloads tokens, secrets and the log level on SIGHUP. If a file cannot be read, the old values stay in use.

use anyhow::{Context, Result};
use error_causes::with_causes;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::log::LogLevelHandle;
use super::secrets::NodeSecrets;
use crate::config::ConfigLayers;

/// Reloads a node's tokens, secrets and log level at each SIGHUP, also at one that arrived while the node was starting.
pub(crate) struct ReloadOnHangup {
    hangups: Signal,
    layers: ConfigLayers,
    level: LogLevelHandle,
}

/// The tokens and cluster secret of a node that SIGHUP reloads from their files, besides the configuration.
#[derive(Default)]
pub(crate) struct ReloadedFiles {
    tokens: Option<gateway::Tokens>,
    cluster: Option<rpc::ClusterSecret>,
    /// A secret that cannot be replaced at run time; it is read only to warn if it has changed.
    fixed: Option<rpc::ClusterSecret>,
}

impl ReloadedFiles {
    pub(crate) fn of(secrets: &NodeSecrets) -> ReloadedFiles {
        ReloadedFiles {
            tokens: secrets.tokens.clone(),
            cluster: secrets.cluster.clone(),
            fixed: None,
        }
    }

    /// In a cluster the passwords of etcd and MongoDB are derived from the secret, so a running node cannot replace it.
    pub(crate) fn in_cluster(secrets: &NodeSecrets) -> ReloadedFiles {
        ReloadedFiles {
            tokens: secrets.tokens.clone(),
            cluster: None,
            fixed: secrets.cluster.clone(),
        }
    }
}

impl ReloadOnHangup {
    /// Must be called within a Tokio runtime.
    pub(crate) fn listen(layers: ConfigLayers, level: LogLevelHandle) -> Result<ReloadOnHangup> {
        let hangups = signal(SignalKind::hangup()).context("could not listen for SIGHUP")?;
        Ok(ReloadOnHangup {
            hangups,
            layers,
            level,
        })
    }

    /// Reloads at each SIGHUP, for ever.
    pub(crate) async fn run(mut self, files: ReloadedFiles) {
        while self.hangups.recv().await.is_some() {
            info!("SIGHUP: reloading tokens, secrets and the log level");
            self.reload_settings();
            reload_files(&files);
        }
    }

    fn reload_settings(&mut self) {
        if let Err(error) = reload_log_level(&mut self.layers, &self.level) {
            error!("could not reload the settings; keeping the old ones: {error:#}");
        }
    }
}

/// Applies a changed log level, and warns about other settings that have changed, because they need a restart.
pub(crate) fn reload_log_level(layers: &mut ConfigLayers, level: &LogLevelHandle) -> Result<()> {
    let fresh = layers.reload()?;
    let (old, new) = (layers.config()?.node.log, fresh.config()?.node.log);
    let mut need_restart = layers.changed_keys(&fresh);
    need_restart.retain(|name| *name != "node.log");
    level.set(&new)?;
    if old.filter != new.filter {
        info!(filter = new.filter, "log level changed");
    }
    if old.format != new.format {
        warn!("the log format has changed; restart the node to apply it");
    }
    if !need_restart.is_empty() {
        warn!(
            "these settings have changed; restart the node to apply them: {}",
            need_restart.join(", ")
        );
    }
    layers.copy_setting("node.log", &fresh);
    Ok(())
}

fn reload_files(files: &ReloadedFiles) {
    if let Some(tokens) = &files.tokens {
        match tokens.reload() {
            Ok(()) => info!(path = %tokens.path().display(), "tokens reloaded"),
            Err(error) => error!(
                "could not reload the tokens; keeping the old ones: {}",
                with_causes(&error)
            ),
        }
    }
    if let Some(secret) = &files.cluster {
        match secret.reload() {
            Ok(()) => info!(path = %secret.path().display(), "cluster secret reloaded"),
            Err(error) => error!(
                "could not reload the cluster secret; keeping the old one: {}",
                with_causes(&error)
            ),
        }
    }
    if let Some(fixed) = &files.fixed {
        match rpc::ClusterSecret::load(fixed.path()) {
            Ok(read) if read.derive("compare") == fixed.derive("compare") => {}
            Ok(_) => error!(
                "{} has changed, but the passwords of etcd and MongoDB are derived from the old secret, which stays in \
                 use; restore the old secret, or this node cannot restart",
                fixed.path().display()
            ),
            Err(error) => error!(
                "could not reload the cluster secret; keeping the old one: {}",
                with_causes(&error)
            ),
        }
    }
}
