//! The services etcd, etcd-proxy and mongodb: each starts its server and supervises it.

use anyhow::Result;
use boot::BootConnection;

use super::super::daemon_options;
use super::stop_on_signal;
use crate::config::Config;
use crate::node::{NodeFolder, NodeSecrets};

pub(super) async fn etcd_member(config: Config, boot_connection: BootConnection) -> Result<()> {
    let stop = stop_on_signal(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    NodeFolder::prepare(&config.node.data.0)?.etcd_folder()?;
    let options = daemon_options::etcd_member(&config, &secrets);
    Ok(daemons::etcd::run_member(options, boot_connection, stop).await?)
}

pub(super) async fn etcd_proxy(config: Config, boot_connection: BootConnection) -> Result<()> {
    let stop = stop_on_signal(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    NodeFolder::prepare(&config.node.data.0)?.etcd_folder()?;
    let options = daemon_options::etcd_proxy(&config, &secrets);
    Ok(daemons::etcd::run_proxy(options, boot_connection, stop).await?)
}

pub(super) async fn mongodb(config: Config, boot_connection: BootConnection) -> Result<()> {
    let stop = stop_on_signal(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    NodeFolder::prepare(&config.node.data.0)?.mongodb_folder()?;
    let options = daemon_options::mongodb(&config, &secrets);
    Ok(daemons::mongodb::run(options, boot_connection, stop).await?)
}
