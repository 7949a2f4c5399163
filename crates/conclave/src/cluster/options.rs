//! What each daemon wants to know, out of the configuration.

use std::ffi::OsString;

use daemons::{etcd, mongodb};

use super::access::{self, Own};
use crate::config::{Address, Config, Founder, Host};
use crate::node::Secrets;

/// The command that ends a server when its daemon ends. By way of /proc, as for every process of ours.
fn leash() -> Vec<OsString> {
    vec!["/proc/self/exe".into(), "leash".into()]
}

pub(super) fn member(config: &Config, secrets: &Secrets) -> etcd::Options {
    let section = &config.etcd;
    etcd::Options {
        name: config.node.name.0.clone(),
        program: section.program.0.clone(),
        data: access::folder(config),
        host: config.node.address.0.clone(),
        client_port: section.client_port.0,
        peer_port: section.peer_port.0,
        start: start(config),
        tries: section.tries.get(),
        quota: section.quota.0,
        login: access::login(secrets),
        tls: access::tls(config),
        leash: leash(),
        resolver: etcd::Resolver::default(),
        admission: mongodb::admission(self::mongodb(config, secrets)),
    }
}

fn start(config: &Config) -> etcd::Start {
    let section = &config.etcd;
    if section.first {
        return etcd::Start::First;
    }
    if let Some(founders) = &section.members {
        let founders = founders
            .iter()
            .map(|Founder { name, peer }| (name.clone(), peer.clone()));
        return etcd::Start::Members(founders.collect());
    }
    if let Some(Host(name)) = &section.discover {
        return etcd::Start::Discover {
            name: name.clone(),
            expect: section.expect.map(|expect| expect.get()),
        };
    }
    match &section.join {
        Some(addresses) => etcd::Start::Join(plain(addresses)),
        None => etcd::Start::Unsaid,
    }
}

pub(super) fn proxy(config: &Config, secrets: &Secrets) -> etcd::ProxyOptions {
    let section = &config.etcd;
    etcd::ProxyOptions {
        program: section.program.0.clone(),
        data: access::folder(config),
        host: "127.0.0.1".to_string(),
        client_port: section.client_port.0,
        seeds: seeds(config),
        tries: section.tries.get(),
        login: access::login(secrets),
        tls: access::tls(config),
        leash: leash(),
        resolver: etcd::Resolver::default(),
    }
}

fn seeds(config: &Config) -> etcd::Seeds {
    let section = &config.etcd;
    match (&section.join, &section.discover) {
        (None, Some(Host(name))) => etcd::Seeds::Behind {
            name: name.clone(),
            client_port: section.client_port.0,
        },
        (join, _) => etcd::Seeds::At(plain(join.as_deref().unwrap_or_default())),
    }
}

pub(super) fn mongodb(config: &Config, secrets: &Secrets) -> mongodb::Options {
    let section = &config.mongodb;
    mongodb::Options {
        name: config.node.name.0.clone(),
        program: section.program.0.clone(),
        data: access::below(config, "mongodb"),
        host: config.node.address.0.clone(),
        port: section.port.0,
        set: section.set.0.clone(),
        tries: section.tries.get(),
        cache: section.cache.map(|size| size.0),
        secret: mongodb_secret(secrets),
        etcd: access::access(config, secrets, Own::Member),
        lease: config.etcd.lease,
        leash: leash(),
    }
}

/// Whoever knows the cluster's secret can make this one; mongod never sees the cluster's.
pub(super) fn mongodb_secret(secrets: &Secrets) -> Option<String> {
    secrets.cluster.as_ref().map(|secret| secret.derive("mongodb"))
}

fn plain(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(|Address(address)| address.clone()).collect()
}
