use anyhow::Result;
use boot::Tether;

use super::super::options;
use super::stop_on_signal;
use crate::config::Config;
use crate::node::{Folder, Secrets};

pub(super) async fn member(config: Config, tether: Tether) -> Result<()> {
    let stop = stop_on_signal(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    Folder::prepare(&config.node.data.0)?.etcd()?;
    let options = options::member(&config, &secrets);
    Ok(daemons::etcd::member(options, tether, stop).await?)
}

pub(super) async fn proxy(config: Config, tether: Tether) -> Result<()> {
    let stop = stop_on_signal(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    Folder::prepare(&config.node.data.0)?.etcd()?;
    let options = options::proxy(&config, &secrets);
    Ok(daemons::etcd::proxy(options, tether, stop).await?)
}
