//! What can be told before anything is started: no file is written and nobody is asked.

use std::net::IpAddr;
use std::path::PathBuf;

use registry::etcd::Tls;
use thiserror::Error;

use super::certificate::common_name;
use super::notes::Notes;
use super::options::address;
use super::peer::certificates;
use super::plan::hopeless;
use super::{EtcdError, Options, ProxyOptions, Seeds, Start};
use crate::server::port;
use crate::server::program::{Program, Version};

pub(crate) const ETCD: Program = Program {
    name: "etcd",
    key: "etcd.program",
    install: "Debian: apt-get install etcd-server",
    // Learners came with it.
    oldest: Version(3, 4, 0),
};

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfitOptions {
    #[error("{0:?} is no name for a node: use letters, digits, '.', '_' and '-'; change node.name (--name)")]
    Name(String),
    #[error("etcd.client_port and etcd.peer_port are both {0}; they have to differ")]
    SamePort(u16),
    #[error("{0:?} is not HOST:PORT; correct {1}")]
    Address(String, &'static str),
    #[error("etcd.members (--members) names {0} twice")]
    Twice(String),
    #[error(
        "etcd.members (--members) does not name this node, {name}={peer}; add it there, or correct node.name (--name), \
         node.address (--address) or etcd.peer_port"
    )]
    NotAmongMembers { name: String, peer: String },
    #[error(
        "etcd.members (--members) has {listed} for {name}, but this node is at {peer}; correct one of them"
    )]
    OtherAddress {
        name: String,
        listed: String,
        peer: String,
    },
    #[error(
        "etcd.members (--members) has the name {listed} for {peer}, but this node is called {name}; correct one of them"
    )]
    OtherName {
        name: String,
        listed: String,
        peer: String,
    },
    #[error(
        "{host} stands for {ip}, where {other} cannot reach this node; give an address of this machine that the others \
         reach with node.address (--address ADDRESS)"
    )]
    Loopback { host: String, ip: IpAddr, other: String },
    #[error("etcd.expect (--bootstrap-expect) is 0: a cluster has at least one member")]
    ExpectNone,
    #[error(
        "the certificate {path:?} has the common name {name:?}, and etcd's proxy takes none that has one; make one with \
         subject alternative names only, 127.0.0.1 among them, and name it with secrets.etcd_cert_file"
    )]
    CommonName { path: PathBuf, name: String },
    #[error("{0} is empty")]
    Nothing(&'static str),
}

/// Finds the program, and refuses options that cannot work with what is in the data folder. Whether the ports are free is seen at the start only: a
/// server of an earlier life may be about to end.
pub fn preflight(options: &Options) -> Result<(), EtcdError> {
    find(&options.program)?;
    check(options)?;
    check_reachable(options, port::own_ip(&options.host)?)?;
    match hopeless(&options.start, &Notes::at(&options.data).read()?) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
}

pub fn preflight_proxy(options: &ProxyOptions) -> Result<(), EtcdError> {
    find(&options.program)?;
    match &options.seeds {
        Seeds::At(addresses) => check_addresses(addresses)?,
        Seeds::Behind { name, .. } if name.is_empty() => {
            return Err(UnfitOptions::Nothing("etcd.discover (--discover)").into());
        }
        Seeds::Behind { .. } => {}
    }
    port::own_ip(&options.host)?;
    if let Some(Tls { cert, .. }) = &options.tls {
        let chain = certificates(cert).map_err(EtcdError::Certificate)?;
        if let Some(name) = chain.first().and_then(|own| common_name(own)) {
            let path = cert.clone();
            return Err(UnfitOptions::CommonName { path, name }.into());
        }
    }
    Ok(())
}

pub(crate) fn find(program: &std::path::Path) -> Result<PathBuf, EtcdError> {
    let path = ETCD.find(program)?;
    ETCD.version(&path)?;
    Ok(path)
}

fn check(options: &Options) -> Result<(), UnfitOptions> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if options.name.is_empty() || !options.name.chars().all(fits) {
        return Err(UnfitOptions::Name(options.name.clone()));
    }
    if options.client_port == options.peer_port {
        return Err(UnfitOptions::SamePort(options.client_port));
    }
    match &options.start {
        Start::Unsaid | Start::First => Ok(()),
        Start::Members(members) => check_members(options, members),
        Start::Discover { name, .. } if name.is_empty() => {
            Err(UnfitOptions::Nothing("etcd.discover (--discover)"))
        }
        Start::Discover { expect: Some(0), .. } => Err(UnfitOptions::ExpectNone),
        Start::Discover { .. } => Ok(()),
        Start::Join(addresses) => check_addresses(addresses),
    }
}

fn check_members(options: &Options, members: &[(String, String)]) -> Result<(), UnfitOptions> {
    let peer = address(&options.host, options.peer_port);
    for (at, (name, address)) in members.iter().enumerate() {
        check_address(address, "etcd.members (--members)")?;
        let before = &members[..at];
        if before.iter().any(|(other, _)| other == name) {
            return Err(UnfitOptions::Twice(name.clone()));
        }
        if before.iter().any(|(_, other)| other == address) {
            return Err(UnfitOptions::Twice(address.clone()));
        }
    }
    let own_name = options.name.clone();
    for (name, address) in members {
        match (*name == options.name, *address == peer) {
            (true, true) => return Ok(()),
            (true, false) => {
                return Err(UnfitOptions::OtherAddress {
                    name: own_name,
                    listed: address.clone(),
                    peer,
                });
            }
            (false, true) => {
                return Err(UnfitOptions::OtherName {
                    name: own_name,
                    listed: name.clone(),
                    peer,
                });
            }
            (false, false) => {}
        }
    }
    Err(UnfitOptions::NotAmongMembers { name: own_name, peer })
}

/// A node at a loopback address can be in one cluster only with others of its machine.
fn check_reachable(options: &Options, ip: IpAddr) -> Result<(), UnfitOptions> {
    if !ip.is_loopback() {
        return Ok(());
    }
    let others: Vec<&String> = match &options.start {
        Start::Members(members) => members.iter().map(|(_, peer)| peer).collect(),
        Start::Join(addresses) => addresses.iter().collect(),
        Start::Unsaid | Start::First | Start::Discover { .. } => Vec::new(),
    };
    match others.into_iter().find(|other| !is_loopback(other)) {
        Some(other) => Err(UnfitOptions::Loopback {
            host: options.host.clone(),
            ip,
            other: other.clone(),
        }),
        None => Ok(()),
    }
}

/// Of `host:port`.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    port::is_loopback(host)
}

fn check_addresses(addresses: &[String]) -> Result<(), UnfitOptions> {
    if addresses.is_empty() {
        return Err(UnfitOptions::Nothing("etcd.join (--join)"));
    }
    addresses
        .iter()
        .try_for_each(|address| check_address(address, "etcd.join (--join)"))
}

fn check_address(address: &str, key: &'static str) -> Result<(), UnfitOptions> {
    let parts = address.rsplit_once(':');
    match parts {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            Ok(())
        }
        _ => Err(UnfitOptions::Address(address.to_string(), key)),
    }
}
