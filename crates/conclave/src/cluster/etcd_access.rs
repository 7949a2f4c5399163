//! How this node's services connect to etcd.

use std::path::{Path, PathBuf};

use registry::etcd::{EtcdAccess, EtcdLogin, EtcdTls};

use crate::config::{Config, HostAddress, HostPort};
use crate::node::NodeSecrets;

/// The endpoints and credentials of etcd. Besides the node's own etcd, the endpoints include the members saved on disk, so that
/// a service keeps working while its own etcd is down.
pub(super) fn etcd_access(config: &Config, secrets: &NodeSecrets, local: LocalEtcd) -> EtcdAccess {
    let port = config.etcd.client_port.0;
    let mut endpoints = match local {
        LocalEtcd::Member => vec![format!("{}:{port}", config.node.address.0)],
        LocalEtcd::Proxy => vec![format!("127.0.0.1:{port}")],
        LocalEtcd::MembersOnly => Vec::new(),
    };
    if let LocalEtcd::Member | LocalEtcd::MembersOnly = local {
        for saved in daemons::etcd::saved_endpoints(&etcd_folder(config)) {
            if !endpoints.contains(&saved) {
                endpoints.push(saved);
            }
        }
    }
    EtcdAccess {
        endpoints,
        login: etcd_login(secrets),
        tls: etcd_tls(config),
        // The daemon of a proxy checks the cluster id for its node.
        cluster_id: match local {
            LocalEtcd::Member | LocalEtcd::MembersOnly => {
                daemons::etcd::saved_cluster_id(&etcd_folder(config))
            }
            LocalEtcd::Proxy => None,
        },
    }
}

/// Through which etcd a part of a cluster node connects: its member, its proxy, or the members saved on disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum LocalEtcd {
    Member,
    Proxy,
    /// Only the members saved on disk. A proxy reports itself as the only member, so it cannot list the members.
    MembersOnly,
}

pub(super) fn etcd_folder(config: &Config) -> PathBuf {
    data_subfolder(config, "etcd")
}

/// The path of a subfolder of the data folder. It need not exist.
pub(super) fn data_subfolder(config: &Config, name: &str) -> PathBuf {
    let data: &Path = &config.node.data.0;
    std::path::absolute(data)
        .unwrap_or_else(|_| data.to_path_buf())
        .join(name)
}

pub(super) fn etcd_login(secrets: &NodeSecrets) -> Option<EtcdLogin> {
    secrets.cluster.as_ref().map(|secret| EtcdLogin {
        user: "root".to_string(),
        password: secret.derive("etcd"),
    })
}

pub(super) fn etcd_tls(config: &Config) -> Option<EtcdTls> {
    let files = &config.secrets;
    Some(EtcdTls {
        ca: files.etcd_ca_file.clone()?,
        cert: files.etcd_cert_file.clone()?,
        key: files.etcd_key_file.clone()?,
    })
}

/// `host:port` with the node's address.
fn at_node_address(config: &Config, port: u16) -> String {
    let HostAddress(host) = &config.node.address;
    format!("{host}:{port}")
}

/// The address at which other nodes reach the judicator: its listen address or, if that is unspecified (0.0.0.0), the node's
/// address.
pub(super) fn advertised_address(config: &Config, bound: std::net::SocketAddr) -> String {
    let HostPort(listen) = &config.judicator.listen;
    let host = listen.rsplit_once(':').map_or("", |(host, _)| host);
    match bound.ip().is_unspecified() || host.is_empty() {
        true => at_node_address(config, bound.port()),
        false => format!("{host}:{}", bound.port()),
    }
}
