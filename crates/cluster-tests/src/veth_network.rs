//! A point-to-point network: a veth pair with one end in its own namespace, which can be taken down.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::conclave;
use crate::ip::{ip, try_ip};
use crate::resource_claim::ResourceClaim;

/// The first half of 198.18.0.0/15, which is reserved for benchmarks and tests; `VirtualLan` uses the second.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NETWORKS: u32 = 1 << 14;

/// A point-to-point test network that can be taken down: a veth pair and a network namespace. It is removed when
/// dropped. Needs root and iproute2.
pub struct VethNetwork {
    name: String,
    /// The first of its four addresses.
    base: u32,
    _claim: ResourceClaim,
}

impl VethNetwork {
    pub fn create() -> VethNetwork {
        let (number, claim) = ResourceClaim::first("network", NETWORKS);
        let network = VethNetwork {
            name: format!("cv{number}"),
            base: u32::from(RANGE) + number * 4,
            _claim: claim,
        };
        let VethNetwork { name, .. } = &network;
        // A killed test may have left them behind.
        let _ = try_ip(&format!("link del {name}o"));
        let _ = try_ip(&format!("netns del {name}"));
        ip(&format!("netns add {name}"));
        ip(&format!(
            "link add {name}o type veth peer name {name}i netns {name}"
        ));
        ip(&format!("addr add {}/30 dev {name}o", network.outside()));
        ip(&format!("link set {name}o up"));
        ip(&format!("-n {name} addr add {}/30 dev {name}i", network.inside()));
        ip(&format!("-n {name} link set {name}i up"));
        network
    }

    /// The address of the end in the test's own namespace.
    pub fn outside(&self) -> String {
        self.address(1)
    }

    /// The file of the network namespace.
    pub fn namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Brings up loopback in the namespace.
    pub fn raise_loopback(&self) {
        ip(&format!("-n {} link set lo up", self.name));
    }

    fn inside(&self) -> String {
        self.address(2)
    }

    fn address(&self, host: u32) -> String {
        Ipv4Addr::from(self.base + host).to_string()
    }

    /// A command that runs the conclave binary in the namespace.
    pub fn conclave(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(conclave());
        command
    }

    /// Takes the link down: packets are dropped without an error.
    pub fn disconnect(&self) {
        ip(&format!("link set {}o down", self.name));
    }

    pub fn reconnect(&self) {
        ip(&format!("link set {}o up", self.name));
    }
}

impl Drop for VethNetwork {
    fn drop(&mut self) {
        // Deleting one end deletes the pair.
        let made = Path::new("/sys/class/net").join(format!("{}o", self.name));
        if made.exists() {
            ip(&format!("link del {}o", self.name));
        }
        ip(&format!("netns del {}", self.name));
    }
}
