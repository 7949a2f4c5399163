//! A network with two ends, one of them in a namespace of its own, and a cable between that can be pulled.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::claim::Claim;
use crate::conclave;
use crate::ip::{ip, try_ip};

/// 198.18.0.0/15 is set aside for tests of networks. This is its first half; `Lan` takes from the second.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NETWORKS: u32 = 1 << 14;

/// Removed when dropped. It takes root and iproute2 to make one.
pub struct Network {
    name: String,
    /// The first of its four addresses.
    base: u32,
    _claim: Claim,
}

impl Network {
    pub fn make() -> Network {
        let (number, claim) = Claim::first("network", NETWORKS);
        let network = Network {
            name: format!("cv{number}"),
            base: u32::from(RANGE) + number * 4,
            _claim: claim,
        };
        let Network { name, .. } = &network;
        // What a killed test has left.
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

    /// The address of this side, where everything else is.
    pub fn outside(&self) -> String {
        self.address(1)
    }

    /// The far side, as a file that stands for it.
    pub fn namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// So that those on the far side can reach each other.
    pub fn raise_loopback(&self) {
        ip(&format!("-n {} link set lo up", self.name));
    }

    fn inside(&self) -> String {
        self.address(2)
    }

    fn address(&self, host: u32) -> String {
        Ipv4Addr::from(self.base + host).to_string()
    }

    /// The conclave binary, to be run on the far side.
    pub fn conclave(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(conclave());
        command
    }

    /// What is sent vanishes; nobody is told.
    pub fn cut(&self) {
        ip(&format!("link set {}o down", self.name));
    }

    pub fn heal(&self) {
        ip(&format!("link set {}o up", self.name));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The cable goes with one of its ends.
        let made = Path::new("/sys/class/net").join(format!("{}o", self.name));
        if made.exists() {
            ip(&format!("link del {}o", self.name));
        }
        ip(&format!("netns del {}", self.name));
    }
}
