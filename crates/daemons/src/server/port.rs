//! Whether a server could listen where it is told to.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, ToSocketAddrs};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum PortError {
    #[error("port {port} on {host} is taken; end what listens there or choose another with {key}")]
    Taken {
        host: String,
        port: u16,
        key: &'static str,
    },
    #[error("{host} is no address of this machine; give one with node.address (--address)")]
    NotOurs { host: String },
    #[error("{host} has no address; give one with node.address (--address)")]
    Unresolved {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot listen on port {port} of {host}; choose another with {key}")]
    Listen {
        host: String,
        port: u16,
        key: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Tries to listen, and lets go at once. `key` is the setting to change when that does not work.
pub(crate) fn check_free(host: &str, port: u16, key: &'static str) -> Result<(), PortError> {
    let ip = own_ip(host)?;
    match TcpListener::bind((ip, port)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(PortError::Taken {
            host: host.to_string(),
            port,
            key,
        }),
        Err(source) => Err(PortError::Listen {
            host: host.to_string(),
            port,
            key,
            source,
        }),
    }
}

/// The address of this machine that a host name or an address in text stands for.
pub(crate) fn own_ip(host: &str) -> Result<IpAddr, PortError> {
    let addresses = addresses(host).map_err(|source| PortError::Unresolved {
        host: host.to_string(),
        source,
    })?;
    reachable(addresses.into_iter().filter(|ip| is_local(*ip))).ok_or_else(|| PortError::NotOurs {
        host: host.to_string(),
    })
}

/// Whether a host is only ever reached from its own machine. One that cannot be looked up is not known to be.
pub(crate) fn is_loopback(host: &str) -> bool {
    let known = addresses(host).unwrap_or_default();
    !known.is_empty() && known.iter().all(IpAddr::is_loopback)
}

fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = (bare(host), 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Many machines have their own name stand for a loopback address too, where nobody else reaches them.
fn reachable(mut addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let first = addresses.next()?;
    match first.is_loopback() {
        true => addresses.find(|ip| !ip.is_loopback()).or(Some(first)),
        false => Some(first),
    }
}

/// Only an address of this machine can be bound to; on a datagram socket that disturbs nobody.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// An IPv6 address stands in brackets where a port may follow.
fn bare(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_the_key_to_change() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = check_free("127.0.0.1", port, "etcd.client_port").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "port {port} on 127.0.0.1 is taken; end what listens there or choose another with etcd.client_port"
            )
        );
        drop(taken);
        check_free("127.0.0.1", port, "etcd.client_port").unwrap();
    }

    #[test]
    fn an_address_that_others_reach_goes_before_loopback() {
        for (addresses, chosen) in [
            (&[][..], None),
            (&["127.0.1.1"], Some("127.0.1.1")),
            (&["127.0.1.1", "10.0.0.1", "10.0.0.2"], Some("10.0.0.1")),
            (&["10.0.0.1", "127.0.1.1"], Some("10.0.0.1")),
            (&["::1", "127.0.0.1"], Some("::1")),
        ] {
            let ips = addresses.iter().map(|ip| ip.parse().unwrap());
            assert_eq!(
                reachable(ips),
                chosen.map(|ip| ip.parse().unwrap()),
                "{addresses:?}"
            );
        }
    }

    #[test]
    fn loopback_is_told_by_address_and_by_name() {
        for (host, loopback) in [
            ("127.0.1.1", true),
            ("[::1]", true),
            ("localhost", true),
            ("192.0.2.1", false),
            ("no-such-host.invalid", false),
        ] {
            assert_eq!(is_loopback(host), loopback, "{host}");
        }
    }

    #[test]
    fn a_strange_address_is_refused() {
        let error = check_free("192.0.2.1", 1, "etcd.client_port").unwrap_err();
        assert_eq!(
            error.to_string(),
            "192.0.2.1 is no address of this machine; give one with node.address (--address)"
        );
    }
}
