//! The options of the etcd daemon.

use std::ffi::OsString;
use std::path::PathBuf;

use registry::etcd::{EtcdAccess, EtcdLogin, EtcdTls};

use super::{DnsResolver, PreJoinCheck};

/// The options of an etcd daemon that runs a member of the etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdMemberOptions {
    /// The name of the node and of its member.
    pub name: String,
    pub program: PathBuf,
    /// The daemon's folder; etcd's own is `data` below it.
    pub data: PathBuf,
    /// An address of this machine at which the other nodes reach it, or a name that resolves to one.
    pub host: String,
    pub client_port: u16,
    pub peer_port: u16,
    pub bootstrap: BootstrapMode,
    /// For how many seconds the daemon waits for etcd to serve, or for other nodes to answer, before it gives up.
    pub tries: u32,
    /// The most bytes that etcd may store.
    pub quota: u64,
    pub login: Option<EtcdLogin>,
    pub tls: Option<EtcdTls>,
    /// The command, put before etcd's own, that ends etcd when the daemon ends; empty for none.
    pub parent_death_wrapper: Vec<OsString>,
    pub resolver: DnsResolver,
    pub pre_join_check: PreJoinCheck,
}

/// How a node without data gets into an etcd cluster: it founds one, alone or with others, or joins one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootstrapMode {
    /// The operator did not say; a node that has data needs nothing else.
    Unspecified,
    /// The node founds a cluster of one member, which others join.
    First,
    /// The node founds a cluster together with these: names and peer addresses (`host:port`), its own included.
    Members(Vec<(String, String)>),
    /// The node finds the others behind a DNS name. With `expect`, the first so many addresses found a cluster;
    /// without it, the node joins an existing one.
    Discover { name: String, expect: Option<u32> },
    /// The node joins a cluster through any of these client addresses (`host:port`).
    Join(Vec<String>),
}

impl BootstrapMode {
    /// Whether the node may found a cluster together with others.
    pub(crate) fn founds_with_others(&self) -> bool {
        matches!(
            self,
            BootstrapMode::Members(_) | BootstrapMode::Discover { expect: Some(_), .. }
        )
    }
}

/// The options of an etcd daemon that runs `etcd grpc-proxy`, for nodes without an etcd member.
#[derive(Clone, Debug)]
pub struct EtcdProxyOptions {
    pub program: PathBuf,
    /// The daemon's folder.
    pub data: PathBuf,
    /// The address to listen on; only programs of this node connect to it.
    pub host: String,
    pub client_port: u16,
    pub seeds: ProxySeeds,
    pub tries: u32,
    pub login: Option<EtcdLogin>,
    pub tls: Option<EtcdTls>,
    pub parent_death_wrapper: Vec<OsString>,
    pub resolver: DnsResolver,
}

/// Where an etcd proxy looks for etcd members at its first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxySeeds {
    /// Client addresses, `host:port` each.
    Addresses(Vec<String>),
    /// All addresses that a DNS name resolves to, at the client port.
    DnsName { name: String, client_port: u16 },
}

impl EtcdMemberOptions {
    pub(crate) fn access(&self, endpoints: Vec<String>) -> EtcdAccess {
        EtcdAccess {
            endpoints,
            login: self.login.clone(),
            tls: self.tls.clone(),
            cluster_id: None,
        }
    }
}

impl EtcdProxyOptions {
    pub(crate) fn access(&self, endpoints: Vec<String>) -> EtcdAccess {
        EtcdAccess {
            endpoints,
            login: self.login.clone(),
            tls: self.tls.clone(),
            cluster_id: None,
        }
    }
}
