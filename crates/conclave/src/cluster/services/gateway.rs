use std::sync::Arc;

use anyhow::Result;
use boot::Word;

use super::super::access::{Own, access};
use crate::config::Config;
use crate::node::{self, Parts, Reload, Renewed, Secrets, Signals, start};

pub(super) async fn run(config: Config, reload: Reload) -> Result<()> {
    let tether = super::tether()?;
    let signals = Signals::listen_with(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    secrets.check_gateway(&config)?;
    let http = node::bind_http(&config, Some(&secrets), "--listen").await?;
    let (registry, list) = start::judicator_list(access(&config, &secrets, Own::Proxy))?;
    let calls = Arc::new(rpc::Client::new(registry.judicators, secrets.cluster.clone()));
    let metrics = start::metrics()?;
    let address = http.local_addr()?;
    tracing::info!(%address, threads = config.gateway.threads.0, "serving HTTP");
    let parts = vec![
        start::upkeep(metrics.clone()),
        start::reload(reload, Renewed::in_cluster(&secrets)),
        start::gateway(&config, http, calls, &secrets, metrics),
        list,
    ];
    tether.say(&Word::Ready);
    Parts(parts).run(signals).await
}
