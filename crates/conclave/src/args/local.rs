//! Flags of the commands about the node on this machine.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::node::flag;
use crate::cluster::LocalNode;
use crate::config::Layers;

#[derive(Args, Debug)]
pub(crate) struct LocalFlags {
    /// Configuration file of the node, to find its data folder
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CONFIG")]
    config: Option<PathBuf>,
    /// Data folder of the node
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

impl LocalFlags {
    pub(crate) fn node(&self) -> Result<LocalNode> {
        let data = flag("node.data", "--data", &self.data).into_iter().collect();
        let config = Layers::gather(self.config.as_deref(), data)?.config()?;
        LocalNode::at(&config.node.data.0)
    }
}
