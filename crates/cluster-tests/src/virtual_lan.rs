//! A virtual network of hosts: each is a network namespace with an address, connected to a bridge by a veth pair that can
//! be taken down.
//!
//! The test's own namespace is at the bridge, so it reaches all hosts. Needs root, iproute2 and util-linux.

mod host;

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ip::{ip, try_ip};
use crate::resource_claim::ResourceClaim;

pub use host::LanHost;

/// The second half of 198.18.0.0/15, which is reserved for benchmarks and tests; `VethNetwork` uses the first.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Addresses of one network.
const WIDTH: u32 = 128;
const BITS: u32 = 25;
const NETWORKS: u32 = (1 << 16) / WIDTH;
const CLAIM: &str = "lan";
const LINKS: &str = "/sys/class/net";

/// A virtual network for a test cluster: network namespaces as hosts, connected by a bridge. It is removed when
/// dropped. Networks that killed tests left behind are removed by the next test.
pub struct VirtualLan {
    number: u32,
    _claim: ResourceClaim,
    hosts: AtomicU32,
}

impl VirtualLan {
    pub fn create() -> VirtualLan {
        remove_networks_of_killed_tests();
        let (number, claim) = ResourceClaim::first(CLAIM, NETWORKS);
        remove(number);
        let lan = VirtualLan {
            number,
            _claim: claim,
            hosts: AtomicU32::new(0),
        };
        let bridge = bridge(lan.number);
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("addr add {}/{BITS} dev {bridge}", lan.address(1)));
        ip(&format!("link set {bridge} up"));
        lan
    }

    /// The address of the test's own namespace.
    pub fn here(&self) -> String {
        self.address(1)
    }

    /// An address that no host gets.
    pub fn unused_address(&self) -> String {
        self.address(WIDTH - 2)
    }

    pub fn host(&self) -> LanHost {
        let host = self.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(host + 1 < WIDTH - 2, "too many hosts on one network");
        LanHost::create(bridge(self.number), host, self.address(host + 1))
    }

    fn address(&self, host: u32) -> String {
        Ipv4Addr::from(u32::from(RANGE) + self.number * WIDTH + host).to_string()
    }
}

impl Drop for VirtualLan {
    fn drop(&mut self) {
        let _ = try_ip(&format!("link del {}", bridge(self.number)));
    }
}

/// Removes networks whose test has ended without doing so.
fn remove_networks_of_killed_tests() {
    for name in names_in(LINKS) {
        let number = name.strip_prefix("cvl").and_then(|number| number.parse().ok());
        let unused = number.and_then(|number| Some((number, ResourceClaim::of(CLAIM, number)?)));
        if let Some((number, _claim)) = unused {
            remove(number);
        }
    }
}

/// Removes a bridge with its hosts, their links and processes.
fn remove(number: u32) {
    let bridge = bridge(number);
    for name in [names_in("/run/netns"), names_in(LINKS)].concat() {
        if name.starts_with(&format!("{bridge}n")) {
            LanHost::remove(&name);
        }
    }
    let _ = try_ip(&format!("link del {bridge}"));
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The name of the bridge, which is also the prefix of its hosts' names.
fn bridge(number: u32) -> String {
    format!("cvl{number}")
}
