//! Flags of the commands that start a node of a cluster.

use boot::PrintLog;
use clap::Args;

use super::node::{flag, list_flag};
use crate::config::Flag;

#[derive(Args, Debug)]
pub(crate) struct ClusterFlags {
    /// Be a node of a cluster: start all that belongs to it, and keep it alive
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Where the other nodes reach this one [default: 127.0.0.1]
    #[arg(long, value_name = "HOST", requires = "cluster")]
    address: Option<String>,
    /// Join through a member's etcd; repeatable
    #[arg(long, value_name = "HOST:PORT", requires = "cluster", value_delimiter = ',')]
    join: Vec<String>,
    /// Find the others behind a DNS name
    #[arg(long, value_name = "NAME", requires = "cluster")]
    discover: Option<String>,
    /// Print what the services log too: all of them, or those named
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

/// How a judicator's node comes to be in its cluster, where it does not join one.
#[derive(Args, Debug)]
pub(crate) struct FounderFlags {
    /// Be the first of a new cluster
    #[arg(long, requires = "cluster")]
    first: bool,
    /// Found the cluster together with others: each node's name and the address of its etcd for the others
    #[arg(
        long,
        value_name = "NAME=HOST:PORT,...",
        requires = "cluster",
        value_delimiter = ','
    )]
    members: Vec<String>,
    /// With --discover: so many nodes found the cluster together, later ones join
    #[arg(long, value_name = "N", requires = "discover")]
    bootstrap_expect: Option<String>,
}

/// The name of a node that has none otherwise.
#[derive(Args, Debug)]
pub(crate) struct NameFlag {
    /// What the node is called, unlike any other [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl ClusterFlags {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        [
            flag("node.address", "--address", &self.address),
            list_flag("etcd.join", "--join", &self.join),
            flag("etcd.discover", "--discover", &self.discover),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whose logs are printed.
    pub(crate) fn print_log(&self) -> PrintLog {
        match self.print_log.as_deref() {
            None => PrintLog::None,
            Some("all") => PrintLog::All,
            Some(names) => PrintLog::Names(names.split(',').map(|name| name.trim().to_string()).collect()),
        }
    }
}

impl FounderFlags {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        [
            flag("etcd.first", "--first", &self.first.then(|| "true".to_string())),
            list_flag("etcd.members", "--members", &self.members),
            flag("etcd.expect", "--bootstrap-expect", &self.bootstrap_expect),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl NameFlag {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        flag("node.name", "--name", &self.name).into_iter().collect()
    }
}
