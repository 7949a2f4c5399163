//! Checks the options and the local state before the daemon starts. Writes no file and asks no other node.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use registry::etcd::EtcdTls;
use thiserror::Error;

use super::decision::refusal_by_local_state;
use super::local_state::EtcdStateDir;
use super::peer::{common_name, read_certificates};
use super::{BootstrapMode, EtcdDaemonError, EtcdMemberOptions, EtcdProxyOptions, ProxySeeds};
use crate::server::port::{self, host_port};
use crate::server::program::{ProgramVersion, ServerProgram};

const ETCD_PROGRAM: ServerProgram = ServerProgram {
    name: "etcd",
    key: "etcd.program",
    install: "Debian: apt-get install etcd-server",
    // The first version with learners.
    oldest: ProgramVersion(3, 4, 0),
};

/// Which option of the etcd daemon is invalid, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidEtcdOptions {
    #[error(
        "{0:?} is not a valid name for a node: use letters, digits, '.', '_' and '-'; change node.name (--name)"
    )]
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
        "{host} resolves to {ip}, where {other} cannot reach this node; set node.address (--address ADDRESS) to an \
         address of this machine that the others can reach"
    )]
    Loopback { host: String, ip: IpAddr, other: String },
    #[error("etcd.expect (--bootstrap-expect) is 0: a cluster has at least one member")]
    ExpectNone,
    #[error(
        "the certificate {path:?} has the common name {name:?}, and etcd's proxy accepts no certificate with one; make \
         one with subject alternative names only, 127.0.0.1 among them, and set secrets.etcd_cert_file to its file"
    )]
    CommonName { path: PathBuf, name: String },
    #[error("{0} is empty")]
    Empty(&'static str),
}

/// Finds etcd, and checks that the options are valid and fit the state on disk. Whether the ports are free is checked
/// only at the start, because etcd of the previous run may still be about to end.
pub fn preflight(options: &EtcdMemberOptions) -> Result<(), EtcdDaemonError> {
    find_program(&options.program)?;
    check_options(options)?;
    check_reachable(options, port::own_ip(&options.host)?)?;
    let state = EtcdStateDir::at(&options.data).read()?;
    match refusal_by_local_state(&options.bootstrap, &state) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
}

pub fn preflight_proxy(options: &EtcdProxyOptions) -> Result<(), EtcdDaemonError> {
    find_program(&options.program)?;
    match &options.seeds {
        ProxySeeds::Addresses(addresses) => check_addresses(addresses)?,
        ProxySeeds::DnsName { name, .. } if name.is_empty() => {
            return Err(InvalidEtcdOptions::Empty("etcd.discover (--discover)").into());
        }
        ProxySeeds::DnsName { .. } => {}
    }
    port::own_ip(&options.host)?;
    if let Some(EtcdTls { cert, .. }) = &options.tls {
        let chain = read_certificates(cert).map_err(EtcdDaemonError::Certificate)?;
        if let Some(name) = chain.first().and_then(|own| common_name(own)) {
            let path = cert.clone();
            return Err(InvalidEtcdOptions::CommonName { path, name }.into());
        }
    }
    Ok(())
}

pub(crate) fn find_program(program: &Path) -> Result<PathBuf, EtcdDaemonError> {
    let path = ETCD_PROGRAM.find(program)?;
    ETCD_PROGRAM.version(&path)?;
    Ok(path)
}

fn check_options(options: &EtcdMemberOptions) -> Result<(), InvalidEtcdOptions> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if options.name.is_empty() || !options.name.chars().all(is_allowed) {
        return Err(InvalidEtcdOptions::Name(options.name.clone()));
    }
    if options.client_port == options.peer_port {
        return Err(InvalidEtcdOptions::SamePort(options.client_port));
    }
    match &options.bootstrap {
        BootstrapMode::Unspecified | BootstrapMode::First => Ok(()),
        BootstrapMode::Members(members) => check_members(options, members),
        BootstrapMode::Discover { name, .. } if name.is_empty() => {
            Err(InvalidEtcdOptions::Empty("etcd.discover (--discover)"))
        }
        BootstrapMode::Discover { expect: Some(0), .. } => Err(InvalidEtcdOptions::ExpectNone),
        BootstrapMode::Discover { .. } => Ok(()),
        BootstrapMode::Join(addresses) => check_addresses(addresses),
    }
}

fn check_members(
    options: &EtcdMemberOptions,
    members: &[(String, String)],
) -> Result<(), InvalidEtcdOptions> {
    let peer = host_port(&options.host, options.peer_port);
    for (index, (name, address)) in members.iter().enumerate() {
        check_address(address, "etcd.members (--members)")?;
        let before = &members[..index];
        if before.iter().any(|(other, _)| other == name) {
            return Err(InvalidEtcdOptions::Twice(name.clone()));
        }
        if before.iter().any(|(_, other)| other == address) {
            return Err(InvalidEtcdOptions::Twice(address.clone()));
        }
    }
    let own_name = options.name.clone();
    for (name, address) in members {
        match (*name == options.name, *address == peer) {
            (true, true) => return Ok(()),
            (true, false) => {
                return Err(InvalidEtcdOptions::OtherAddress {
                    name: own_name,
                    listed: address.clone(),
                    peer,
                });
            }
            (false, true) => {
                return Err(InvalidEtcdOptions::OtherName {
                    name: own_name,
                    listed: name.clone(),
                    peer,
                });
            }
            (false, false) => {}
        }
    }
    Err(InvalidEtcdOptions::NotAmongMembers { name: own_name, peer })
}

/// A node at a loopback address can be in a cluster only with other nodes of its machine.
fn check_reachable(options: &EtcdMemberOptions, ip: IpAddr) -> Result<(), InvalidEtcdOptions> {
    if !ip.is_loopback() {
        return Ok(());
    }
    let others: Vec<&String> = match &options.bootstrap {
        BootstrapMode::Members(members) => members.iter().map(|(_, peer)| peer).collect(),
        BootstrapMode::Join(addresses) => addresses.iter().collect(),
        BootstrapMode::Unspecified | BootstrapMode::First | BootstrapMode::Discover { .. } => Vec::new(),
    };
    match others.into_iter().find(|other| !is_loopback(other)) {
        Some(other) => Err(InvalidEtcdOptions::Loopback {
            host: options.host.clone(),
            ip,
            other: other.clone(),
        }),
        None => Ok(()),
    }
}

/// `address` is `host:port`.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    port::is_loopback(host)
}

fn check_addresses(addresses: &[String]) -> Result<(), InvalidEtcdOptions> {
    if addresses.is_empty() {
        return Err(InvalidEtcdOptions::Empty("etcd.join (--join)"));
    }
    addresses
        .iter()
        .try_for_each(|address| check_address(address, "etcd.join (--join)"))
}

fn check_address(address: &str, key: &'static str) -> Result<(), InvalidEtcdOptions> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            Ok(())
        }
        _ => Err(InvalidEtcdOptions::Address(address.to_string(), key)),
    }
}
