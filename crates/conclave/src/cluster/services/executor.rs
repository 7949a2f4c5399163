//! The executor service of a cluster node.

use std::sync::Arc;

use anyhow::Result;
use boot::ServiceMessage;
use executor::JudicatorLocation;

use super::super::etcd_access::{LocalEtcd, etcd_access};
use crate::config::Config;
use crate::node::{
    NodeComponents, NodeFolder, NodeSecrets, ReloadOnHangup, ReloadedFiles, StopSignals, start,
};

pub(super) async fn run(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let boot_connection = super::boot_connection()?;
    let signals = StopSignals::listen_with(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    let folder = NodeFolder::prepare(&config.node.data.0)?;
    let (registry, judicator_list) = start::judicator_list(etcd_access(&config, &secrets, LocalEtcd::Proxy))?;
    let calls = rpc::RpcClient::new(registry.judicators, secrets.cluster.clone());
    let components = vec![
        start::executor(&config, &folder, Arc::new(calls), JudicatorLocation::Remote).await?,
        start::reload(reload, ReloadedFiles::in_cluster(&secrets)),
        // Stopped last, because the executor's last report still needs the addresses of the judicators.
        judicator_list,
    ];
    boot_connection.send(&ServiceMessage::Ready);
    NodeComponents(components).run(signals).await
}
