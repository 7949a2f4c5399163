//! A network with two ends, one of them in a namespace of its own, and a cable between that can be pulled.

use std::path::Path;
use std::process::Command;

use crate::conclave;

/// Removed when dropped. It takes root and iproute2 to make one.
pub struct Network {
    name: String,
    /// Which of the small networks below 198.18.0.0/15, the range for tests of networks.
    block: [u8; 3],
}

impl Network {
    /// Named after the process, so that tests do not meet.
    pub fn make() -> Network {
        let pid = std::process::id();
        let [_, high, middle, low] = pid.to_be_bytes();
        let network = Network {
            name: format!("cv{pid}"),
            // Four addresses for each: of 22 bits of the pid, those that tell processes apart which live together.
            block: [18 + (high & 1), middle, low],
        };
        let Network { name, .. } = &network;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name}o type veth peer name {name}i netns {name}"));
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

    fn inside(&self) -> String {
        self.address(2)
    }

    fn address(&self, host: u8) -> String {
        let [second, third, fourth] = self.block;
        // The two lowest bits are the host's.
        format!("198.{second}.{third}.{}", (fourth << 2) | host)
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

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output();
    let output = output.expect("`ip` of iproute2");
    assert!(
        output.status.success(),
        "ip {args} failed (it needs root): {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
