//! Checks that a server can listen on an address of this machine.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, ToSocketAddrs};

use thiserror::Error;

/// Why etcd or mongod cannot listen on an address of this machine, and which setting to change.
#[derive(Debug, Error)]
pub enum PortError {
    #[error(
        "port {port} on {host} is in use; stop the program that listens there or choose another port with {key}"
    )]
    Taken {
        host: String,
        port: u16,
        key: &'static str,
    },
    #[error("{host} is not an address of this machine; set node.address (--address) to one")]
    NotOurs { host: String },
    #[error("{host} does not resolve; set node.address (--address) to an address of this machine")]
    Unresolved {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("could not listen on port {port} of {host}; choose another port with {key}")]
    Listen {
        host: String,
        port: u16,
        key: &'static str,
        #[source]
        source: io::Error,
    },
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn host_port(host: &str, port: u16) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// Tries to listen there, and closes the port at once. `key` names the setting to change if that fails.
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

/// The address of this machine that a host name resolves to, or that `host` is.
pub(crate) fn own_ip(host: &str) -> Result<IpAddr, PortError> {
    let addresses = addresses(host).map_err(|source| PortError::Unresolved {
        host: host.to_string(),
        source,
    })?;
    prefer_reachable(addresses.into_iter().filter(|ip| is_local(*ip))).ok_or_else(|| PortError::NotOurs {
        host: host.to_string(),
    })
}

/// Whether a host can be reached only from its own machine. False if it does not resolve.
pub(crate) fn is_loopback(host: &str) -> bool {
    let known = addresses(host).unwrap_or_default();
    !known.is_empty() && known.iter().all(IpAddr::is_loopback)
}

fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = (without_brackets(host), 0).to_socket_addrs()?;
    Ok(found.map(|address| address.ip()).collect())
}

/// Prefers an address that other machines can reach: on many machines the host name also resolves to a loopback
/// address.
fn prefer_reachable(mut addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let first = addresses.next()?;
    match first.is_loopback() {
        true => addresses.find(|ip| !ip.is_loopback()).or(Some(first)),
        false => Some(first),
    }
}

/// Tries to bind a UDP socket, which works only on an address of this machine and does not disturb any server.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// Removes the brackets of an IPv6 address.
fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_port_in_use_names_the_setting_to_change() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = check_free("127.0.0.1", port, "etcd.client_port").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "port {port} on 127.0.0.1 is in use; stop the program that listens there or choose another port with \
                 etcd.client_port"
            )
        );
        drop(taken);
        check_free("127.0.0.1", port, "etcd.client_port").unwrap();
    }

    #[test]
    fn only_a_bare_ipv6_address_gets_brackets() {
        for (host, expected) in [
            ("10.0.0.1", "10.0.0.1:1"),
            ("host", "host:1"),
            ("::1", "[::1]:1"),
            ("[::1]", "[::1]:1"),
        ] {
            assert_eq!(host_port(host, 1), expected);
        }
    }

    #[test]
    fn an_address_that_others_can_reach_is_preferred_to_loopback() {
        for (addresses, chosen) in [
            (&[][..], None),
            (&["127.0.1.1"], Some("127.0.1.1")),
            (&["127.0.1.1", "10.0.0.1", "10.0.0.2"], Some("10.0.0.1")),
            (&["10.0.0.1", "127.0.1.1"], Some("10.0.0.1")),
            (&["::1", "127.0.0.1"], Some("::1")),
        ] {
            let ips = addresses.iter().map(|ip| ip.parse().unwrap());
            assert_eq!(
                prefer_reachable(ips),
                chosen.map(|ip| ip.parse().unwrap()),
                "{addresses:?}"
            );
        }
    }

    #[test]
    fn loopback_is_recognised_by_address_and_by_name() {
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
    fn an_address_of_another_machine_is_refused() {
        let error = check_free("192.0.2.1", 1, "etcd.client_port").unwrap_err();
        assert_eq!(
            error.to_string(),
            "192.0.2.1 is not an address of this machine; set node.address (--address) to one"
        );
    }
}
