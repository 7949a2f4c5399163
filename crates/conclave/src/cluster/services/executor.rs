use std::sync::Arc;

use anyhow::Result;
use boot::{Tether, Word};

use super::super::access::{Own, access};
use crate::config::Config;
use crate::node::{Folder, Parts, Secrets, Signals, start};

pub(super) async fn run(config: Config, tether: Tether) -> Result<()> {
    let signals = Signals::listen_with(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let (registry, list) = start::judicator_list(access(&config, &secrets, Own::Proxy))?;
    let calls = rpc::Client::new(registry.judicators, secrets.cluster.clone());
    // The list to the very end: the last report, too, has to find a judicator.
    let parts = vec![start::executor(&config, &folder, Arc::new(calls))?, list];
    tether.say(&Word::Ready);
    Parts(parts).run(signals).await
}
