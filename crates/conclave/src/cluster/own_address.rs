//! Finds this machine's address on the network, for nodes without a configured address.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// The machine's only address that is neither loopback nor link-local. IPv6 counts only where there is no IPv4 address.
pub(super) fn own_address() -> Result<String> {
    let interfaces = getifaddrs().context("could not look up this machine's addresses")?;
    choose(interfaces.filter_map(|interface| ip(&interface.address?)))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(IpAddr::V4(v4.ip()));
    }
    address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))
}

fn choose(addresses: impl Iterator<Item = IpAddr>) -> Result<String> {
    let is_local = |address: &IpAddr| match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    };
    let (v4, v6): (Vec<_>, Vec<_>) = addresses
        .filter(|address| !is_local(address))
        .partition(IpAddr::is_ipv4);
    let found = if v4.is_empty() { v6 } else { v4 };
    match found[..] {
        [IpAddr::V4(only)] => Ok(only.to_string()),
        [IpAddr::V6(only)] => Ok(format!("[{only}]")),
        [] => bail!(
            "this machine has no address that other nodes can reach; connect it to a network, or give an address with --address"
        ),
        [..] => {
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            bail!(
                "this machine has several addresses ({}); give the one that other nodes can reach with --address",
                found.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_address_is_used_and_several_are_refused() {
        let check = |addresses: &[&str], expected: Result<&str, &str>| {
            let found = choose(addresses.iter().map(|address| address.parse().unwrap()));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(wrong), Err(part)) => assert!(wrong.to_string().contains(part), "{wrong}"),
                (found, _) => panic!("{addresses:?} gave {found:?}"),
            }
        };
        check(&["127.0.0.1", "10.0.0.3", "::1", "fd00::3"], Ok("10.0.0.3"));
        check(&["::1", "fe80::1", "fd00::3"], Ok("[fd00::3]"));
        check(&["127.0.0.1", "169.254.1.1"], Err("no address"));
        check(&["10.0.0.3", "10.1.0.3"], Err("10.0.0.3, 10.1.0.3"));
    }
}
