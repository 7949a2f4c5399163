use std::sync::Arc;

use anyhow::Result;
use boot::Word;
use executor::Contact;

use super::super::access::{Own, access};
use crate::config::Config;
use crate::node::{Folder, Parts, Reload, Renewed, Secrets, Signals, start};

pub(super) async fn run(config: Config, reload: Reload) -> Result<()> {
    let tether = super::tether()?;
    let signals = Signals::listen_with(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let (registry, list) = start::judicator_list(access(&config, &secrets, Own::Proxy))?;
    let calls = rpc::Client::new(registry.judicators, secrets.cluster.clone());
    let parts = vec![
        start::executor(&config, &folder, Arc::new(calls), Contact::Remote).await?,
        start::reload(reload, Renewed::in_cluster(&secrets)),
        // To the very end: the last report, too, has to find a judicator.
        list,
    ];
    tether.say(&Word::Ready);
    Parts(parts).run(signals).await
}
