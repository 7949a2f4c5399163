//! Flags of the commands that start a cluster node.

use boot::PrintLog;
use clap::Args;

use super::node::{config_flag, config_list_flag};
use crate::config::ConfigFlag;

/// Flags of every cluster node.
#[derive(Args, Debug)]
pub(crate) struct ClusterFlags {
    /// Start a cluster node: start its services and restart them when they fail
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Address at which the other nodes reach this one [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", requires = "cluster")]
    address: Option<String>,
    /// Join the cluster through the etcd of this judicator node; repeatable
    #[arg(long, value_name = "HOST:PORT", requires = "cluster", value_delimiter = ',')]
    join: Vec<String>,
    /// Find the other nodes by this DNS name
    #[arg(long, value_name = "NAME", requires = "cluster")]
    discover: Option<String>,
    /// Also print the logs of the services: of all, or of the named ones
    #[arg(
        long,
        value_name = "SERVICES",
        requires = "cluster",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all"
    )]
    print_log: Option<String>,
}

/// Flags with which a judicator node forms a new cluster instead of joining one.
#[derive(Args, Debug)]
pub(crate) struct BootstrapFlags {
    /// Start a new cluster with this node as its first
    #[arg(long, requires = "cluster")]
    first: bool,
    /// Form a new cluster of these nodes: the name of each and the peer address of its etcd
    #[arg(
        long,
        value_name = "NAME=HOST:PORT,...",
        requires = "cluster",
        value_delimiter = ','
    )]
    members: Vec<String>,
    /// With --discover: form a new cluster when this many nodes are found; later nodes join
    #[arg(long, value_name = "N", requires = "discover")]
    bootstrap_expect: Option<String>,
}

/// `--name` of a judicator or gateway.
#[derive(Args, Debug)]
pub(crate) struct NodeNameFlag {
    /// Name of the node, unique in the cluster [default: the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl ClusterFlags {
    pub(crate) fn config_flags(&self) -> Vec<ConfigFlag> {
        [
            config_flag("node.address", "--address", &self.address),
            config_list_flag("etcd.join", "--join", &self.join),
            config_flag("etcd.discover", "--discover", &self.discover),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The services whose logs are printed.
    pub(crate) fn print_log(&self) -> PrintLog {
        match self.print_log.as_deref() {
            None => PrintLog::None,
            Some("all") => PrintLog::All,
            Some(names) => PrintLog::Names(names.split(',').map(|name| name.trim().to_string()).collect()),
        }
    }
}

impl BootstrapFlags {
    pub(crate) fn config_flags(&self) -> Vec<ConfigFlag> {
        [
            config_flag("etcd.first", "--first", &self.first.then(|| "true".to_string())),
            config_list_flag("etcd.members", "--members", &self.members),
            config_flag("etcd.expect", "--bootstrap-expect", &self.bootstrap_expect),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl NodeNameFlag {
    pub(crate) fn config_flags(&self) -> Vec<ConfigFlag> {
        config_flag("node.name", "--name", &self.name)
            .into_iter()
            .collect()
    }
}
