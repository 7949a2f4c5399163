//! The gateway service of a cluster node.

use std::sync::Arc;

use anyhow::Result;
use boot::ServiceMessage;

use super::super::etcd_access::{LocalEtcd, etcd_access};
use crate::config::Config;
use crate::node::{self, NodeComponents, NodeSecrets, ReloadOnHangup, ReloadedFiles, StopSignals, start};

pub(super) async fn run(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let boot_connection = super::boot_connection()?;
    let signals = StopSignals::listen_with(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    secrets.check_gateway(&config)?;
    let http = node::bind_http(&config, Some(&secrets), "--listen").await?;
    let (registry, judicator_list) = start::judicator_list(etcd_access(&config, &secrets, LocalEtcd::Proxy))?;
    let calls = Arc::new(rpc::RpcClient::new(registry.judicators, secrets.cluster.clone()));
    let metrics = start::metrics()?;
    let address = http.local_addr()?;
    tracing::info!(%address, threads = config.gateway.threads.0, "serving HTTP");
    let components = vec![
        start::metrics_upkeep(metrics.clone()),
        start::reload(reload, ReloadedFiles::in_cluster(&secrets)),
        start::gateway(&config, http, calls, &secrets, metrics),
        judicator_list,
    ];
    boot_connection.send(&ServiceMessage::Ready);
    NodeComponents(components).run(signals).await
}
