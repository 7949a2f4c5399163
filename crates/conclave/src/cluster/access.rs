//! How this node's services reach etcd, and what they show there and at the replica set.

use std::path::{Path, PathBuf};

use registry::etcd::{Access, Login, Tls};

use crate::config::{Address, Config, Host};
use crate::node::Secrets;

/// Etcd as this node's own service: the member or the proxy, and whatever members it has heard of besides, so that
/// a service goes on while its own etcd is down.
pub(super) fn access(config: &Config, secrets: &Secrets, own: Own) -> Access {
    let port = config.etcd.client_port.0;
    let mut endpoints = match own {
        Own::Member => vec![format!("{}:{port}", config.node.address.0)],
        Own::Proxy => vec![format!("127.0.0.1:{port}")],
        Own::None => Vec::new(),
    };
    if let Own::Member | Own::None = own {
        for known in daemons::etcd::known_endpoints(&folder(config)) {
            if !endpoints.contains(&known) {
                endpoints.push(known);
            }
        }
    }
    Access {
        endpoints,
        login: login(secrets),
        tls: tls(config),
        // The proxy's daemon sees to that for its node.
        cluster: match own {
            Own::Member | Own::None => daemons::etcd::known_cluster(&folder(config)),
            Own::Proxy => None,
        },
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Own {
    Member,
    Proxy,
    /// The members that the node has heard of, by themselves: a proxy says that it is the only one.
    None,
}

pub(super) fn folder(config: &Config) -> PathBuf {
    below(config, "etcd")
}

/// A part of the data folder, whether it exists or not.
pub(super) fn below(config: &Config, part: &str) -> PathBuf {
    let data: &Path = &config.node.data.0;
    std::path::absolute(data)
        .unwrap_or_else(|_| data.to_path_buf())
        .join(part)
}

pub(super) fn login(secrets: &Secrets) -> Option<Login> {
    secrets.cluster.as_ref().map(|secret| Login {
        user: "root".to_string(),
        password: secret.derive("etcd"),
    })
}

pub(super) fn tls(config: &Config) -> Option<Tls> {
    let files = &config.secrets;
    Some(Tls {
        ca: files.etcd_ca_file.clone()?,
        cert: files.etcd_cert_file.clone()?,
        key: files.etcd_key_file.clone()?,
    })
}

/// `host:port` for a port of this node.
pub(super) fn at(config: &Config, port: u16) -> String {
    let Host(host) = &config.node.address;
    format!("{host}:{port}")
}

/// Where others reach the judicator: where it listens, or the node's address where that is every address.
pub(super) fn advertised(config: &Config, bound: std::net::SocketAddr) -> String {
    let Address(listen) = &config.judicator.listen;
    let host = listen.rsplit_once(':').map_or("", |(host, _)| host);
    match bound.ip().is_unspecified() || host.is_empty() {
        true => at(config, bound.port()),
        false => format!("{host}:{}", bound.port()),
    }
}
