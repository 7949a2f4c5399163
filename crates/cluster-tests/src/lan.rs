//! A network of hosts: each in a namespace with an address of its own, and a cable to a switch that can be pulled.
//!
//! The test itself is at the switch, so it reaches all of them. It takes root, iproute2 and util-linux.

mod host;

use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::claim::Claim;
use crate::ip::{ip, try_ip};

pub use host::Host;

/// The second half of what is set aside for tests of networks; `Network` takes from the first.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// The addresses of one network.
const WIDTH: u32 = 128;
const BITS: u32 = 25;
const NETWORKS: u32 = (1 << 16) / WIDTH;
const CLAIM: &str = "lan";
const LINKS: &str = "/sys/class/net";

/// Removed when dropped. What a killed test has left is removed by the next.
pub struct Lan {
    number: u32,
    _claim: Claim,
    hosts: AtomicU32,
}

impl Lan {
    pub fn make() -> Lan {
        sweep();
        let (number, claim) = Claim::first(CLAIM, NETWORKS);
        clear_away(number);
        let lan = Lan {
            number,
            _claim: claim,
            hosts: AtomicU32::new(0),
        };
        let switch = switch(lan.number);
        ip(&format!("link add {switch} type bridge"));
        ip(&format!("addr add {}/{BITS} dev {switch}", lan.address(1)));
        ip(&format!("link set {switch} up"));
        lan
    }

    /// The address of the test itself.
    pub fn here(&self) -> String {
        self.address(1)
    }

    /// An address that no host has or will have.
    pub fn nobody(&self) -> String {
        self.address(WIDTH - 2)
    }

    pub fn host(&self) -> Host {
        let host = self.hosts.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(host + 1 < WIDTH - 2, "too many hosts on one network");
        Host::plug_in(switch(self.number), host, self.address(host + 1))
    }

    fn address(&self, host: u32) -> String {
        Ipv4Addr::from(u32::from(RANGE) + self.number * WIDTH + host).to_string()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        let _ = try_ip(&format!("link del {}", switch(self.number)));
    }
}

/// Removes the networks of tests that were killed.
fn sweep() {
    for name in names_in(LINKS) {
        let number = name.strip_prefix("cvl").and_then(|number| number.parse().ok());
        let unused = number.and_then(|number| Some((number, Claim::of(CLAIM, number)?)));
        if let Some((number, _claim)) = unused {
            clear_away(number);
        }
    }
}

/// Removes a switch with all of its hosts, their cables and what runs on them.
fn clear_away(number: u32) {
    let switch = switch(number);
    for name in [names_in("/run/netns"), names_in(LINKS)].concat() {
        if name.starts_with(&format!("{switch}n")) {
            Host::clear_away(&name);
        }
    }
    let _ = try_ip(&format!("link del {switch}"));
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Also what the names of its hosts begin with.
fn switch(number: u32) -> String {
    format!("cvl{number}")
}
