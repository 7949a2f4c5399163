//! A host of a virtual network.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ip::{ip, try_ip};

/// A host of a test's virtual network: a network namespace with an address, in which a node's processes run. Its
/// processes are killed when it is dropped.
pub struct LanHost {
    /// The name of the namespace, and of the link's end at the bridge.
    name: String,
    address: String,
}

/// No host has this MAC address, so packets to it are lost.
const UNUSED_MAC: &str = "02:00:00:00:00:01";
/// A killed process may wait for the disk before it ends.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

impl LanHost {
    pub(super) fn create(bridge: String, number: u32, address: String) -> LanHost {
        let host = LanHost {
            name: format!("{bridge}n{number}"),
            address,
        };
        let LanHost { name, address } = &host;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name} type veth peer name eth0 netns {name}"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} addr add {address}/{} dev eth0", super::BITS));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("link set {name} master {bridge} up"));
        host
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A command that runs on this host, optionally with another resolv.conf.
    pub fn command(&self, resolver: Option<&Path>, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name));
        if let Some(resolver) = resolver {
            let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
            command
                .args(["unshare", "--mount", "sh", "-c", script])
                .arg(resolver);
        }
        command.arg(program);
        command
    }

    /// Takes the link down: packets are dropped without an error.
    pub fn disconnect(&self) {
        ip(&format!("link set {} down", self.name));
    }

    pub fn reconnect(&self) {
        ip(&format!("link set {} up", self.name));
    }

    /// Drops packets from this host to the other. Packets from the other still arrive.
    pub fn block_sending_to(&self, to: &LanHost) {
        let LanHost { name, .. } = self;
        let to = &to.address;
        ip(&format!(
            "-n {name} neigh replace {to} lladdr {UNUSED_MAC} dev eth0 nud permanent"
        ));
    }

    pub fn unblock_sending_to(&self, to: &LanHost) {
        ip(&format!("-n {} neigh del {} dev eth0", self.name, to.address));
    }

    /// The pids of all processes on this host.
    pub fn processes(&self) -> Vec<i32> {
        processes(&self.name)
    }

    /// Kills all processes on this host, and returns when they are gone.
    pub fn kill_all(&self) {
        kill_all(&self.name);
    }

    pub(super) fn remove(name: &str) {
        kill_all(name);
        let _ = try_ip(&format!("netns del {name}"));
        // The kernel removes the link with the namespace, but asynchronously.
        let _ = try_ip(&format!("link del {name}"));
    }
}

impl Drop for LanHost {
    fn drop(&mut self) {
        LanHost::remove(&self.name);
    }
}

fn kill_all(name: &str) {
    let begun = Instant::now();
    loop {
        let found = processes(name);
        if found.is_empty() || begun.elapsed() > KILL_TIMEOUT {
            return;
        }
        for pid in found {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn processes(name: &str) -> Vec<i32> {
    let Ok(namespace) = fs::metadata(format!("/run/netns/{name}")) else {
        return Vec::new();
    };
    let is_here = |pid: &i32| {
        let of_process = fs::metadata(format!("/proc/{pid}/ns/net"));
        of_process.is_ok_and(|found| found.ino() == namespace.ino())
    };
    let names = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(is_here)
        .collect()
}
