//! The options of the etcd and mongodb daemons, from the configuration.

use std::ffi::OsString;

use daemons::{etcd, mongodb};

use super::etcd_access::{LocalEtcd, data_subfolder, etcd_access, etcd_folder, etcd_login, etcd_tls};
use crate::config::{Config, HostAddress, HostPort, InitialMember};
use crate::node::NodeSecrets;

/// The command that starts a server and kills it when its daemon dies. `/proc/self/exe` is the running program even after an
/// upgrade has replaced its file.
fn parent_death_wrapper() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), "leash".into()]
}

pub(super) fn etcd_member(config: &Config, secrets: &NodeSecrets) -> etcd::EtcdMemberOptions {
    let section = &config.etcd;
    etcd::EtcdMemberOptions {
        name: config.node.name.0.clone(),
        program: section.program.0.clone(),
        data: etcd_folder(config),
        host: config.node.address.0.clone(),
        client_port: section.client_port.0,
        peer_port: section.peer_port.0,
        bootstrap: bootstrap_mode(config),
        tries: section.tries.get(),
        quota: section.quota.0,
        login: etcd_login(secrets),
        tls: etcd_tls(config),
        parent_death_wrapper: parent_death_wrapper(),
        resolver: etcd::DnsResolver::default(),
        pre_join_check: mongodb::pre_join_check(self::mongodb(config, secrets)),
    }
}

fn bootstrap_mode(config: &Config) -> etcd::BootstrapMode {
    let section = &config.etcd;
    if section.first {
        return etcd::BootstrapMode::First;
    }
    if let Some(members) = &section.members {
        let members = members
            .iter()
            .map(|InitialMember { name, peer }| (name.clone(), peer.clone()));
        return etcd::BootstrapMode::Members(members.collect());
    }
    if let Some(HostAddress(name)) = &section.discover {
        return etcd::BootstrapMode::Discover {
            name: name.clone(),
            expect: section.expect.map(|expect| expect.get()),
        };
    }
    match &section.join {
        Some(addresses) => etcd::BootstrapMode::Join(as_strings(addresses)),
        None => etcd::BootstrapMode::Unspecified,
    }
}

pub(super) fn etcd_proxy(config: &Config, secrets: &NodeSecrets) -> etcd::EtcdProxyOptions {
    let section = &config.etcd;
    etcd::EtcdProxyOptions {
        program: section.program.0.clone(),
        data: etcd_folder(config),
        host: "127.0.0.1".to_string(),
        client_port: section.client_port.0,
        seeds: proxy_seeds(config),
        tries: section.tries.get(),
        login: etcd_login(secrets),
        tls: etcd_tls(config),
        parent_death_wrapper: parent_death_wrapper(),
        resolver: etcd::DnsResolver::default(),
    }
}

fn proxy_seeds(config: &Config) -> etcd::ProxySeeds {
    let section = &config.etcd;
    match (&section.join, &section.discover) {
        (None, Some(HostAddress(name))) => etcd::ProxySeeds::DnsName {
            name: name.clone(),
            client_port: section.client_port.0,
        },
        (join, _) => etcd::ProxySeeds::Addresses(as_strings(join.as_deref().unwrap_or_default())),
    }
}

pub(super) fn mongodb(config: &Config, secrets: &NodeSecrets) -> mongodb::MongodDaemonOptions {
    let section = &config.mongodb;
    mongodb::MongodDaemonOptions {
        name: config.node.name.0.clone(),
        program: section.program.0.clone(),
        data: data_subfolder(config, "mongodb"),
        host: config.node.address.0.clone(),
        port: section.port.0,
        set: section.set.0.clone(),
        tries: section.tries.get(),
        cache: section.cache.map(|size| size.0),
        secret: mongodb_secret(secrets),
        etcd: etcd_access(config, secrets, LocalEtcd::Member),
        lease: config.etcd.lease,
        parent_death_wrapper: parent_death_wrapper(),
    }
}

/// The secret of the replica set, derived from the cluster secret, so that mongod never sees the cluster secret itself.
pub(super) fn mongodb_secret(secrets: &NodeSecrets) -> Option<String> {
    secrets.cluster.as_ref().map(|secret| secret.derive("mongodb"))
}

fn as_strings(addresses: &[HostPort]) -> Vec<String> {
    addresses
        .iter()
        .map(|HostPort(address)| address.clone())
        .collect()
}
