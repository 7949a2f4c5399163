//! What the daemon is told.

use std::ffi::OsString;
use std::path::PathBuf;

use registry::etcd::{Access, Login, Tls};

use super::{Admission, Resolver};

/// A member of the cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, and its member's.
    pub name: String,
    pub program: PathBuf,
    /// The daemon's folder; etcd's own is `data` below it.
    pub data: PathBuf,
    /// Where other nodes reach this one: an address of this machine, or a name that stands for one.
    pub host: String,
    pub client_port: u16,
    pub peer_port: u16,
    pub start: Start,
    /// How often, once a second, it is looked whether etcd serves (or others answer) before giving up.
    pub tries: u32,
    /// Bytes that etcd may keep.
    pub quota: u64,
    pub login: Option<Login>,
    pub tls: Option<Tls>,
    /// The command that ties etcd's life to the daemon's; empty for none.
    pub leash: Vec<OsString>,
    pub resolver: Resolver,
    pub admission: Admission,
}

/// How a node without data comes to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing was said: enough for a node that has data.
    Unsaid,
    /// It founds a cluster of one, which others join.
    First,
    /// It founds a cluster together with these: names, and `host:port` for peers.
    Members(Vec<(String, String)>),
    /// It finds the others behind a DNS name: with `expect`, the first so many found a cluster; else it joins one.
    Discover { name: String, expect: Option<u32> },
    /// It joins through any of these, `host:port` for clients.
    Join(Vec<String>),
}

/// A proxy to the members, for nodes that are none.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    pub program: PathBuf,
    /// The daemon's folder.
    pub data: PathBuf,
    /// Where it listens; only programs of this node use it.
    pub host: String,
    pub client_port: u16,
    pub seeds: Seeds,
    pub tries: u32,
    pub login: Option<Login>,
    pub tls: Option<Tls>,
    pub leash: Vec<OsString>,
    pub resolver: Resolver,
}

/// Where members are looked for at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// `host:port` for clients.
    At(Vec<String>),
    /// All addresses of a DNS name, at the port for clients.
    Behind { name: String, client_port: u16 },
}

impl Options {
    pub(crate) fn access(&self, endpoints: Vec<String>) -> Access {
        Access {
            endpoints,
            login: self.login.clone(),
            tls: self.tls.clone(),
            cluster: None,
        }
    }
}

impl ProxyOptions {
    pub(crate) fn access(&self, endpoints: Vec<String>) -> Access {
        Access {
            endpoints,
            login: self.login.clone(),
            tls: self.tls.clone(),
            cluster: None,
        }
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn address(host: &str, port: u16) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}
