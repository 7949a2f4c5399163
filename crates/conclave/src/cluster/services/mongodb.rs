use anyhow::Result;
use boot::Tether;

use super::super::options;
use super::stop_on_signal;
use crate::config::Config;
use crate::node::{Folder, Secrets};

pub(super) async fn run(config: Config, tether: Tether) -> Result<()> {
    let stop = stop_on_signal(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    Folder::prepare(&config.node.data.0)?.mongodb()?;
    let options = options::mongodb(&config, &secrets);
    Ok(daemons::mongodb::run(options, tether, stop).await?)
}
