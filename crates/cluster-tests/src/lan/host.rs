//! One host of a network.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ip::{ip, try_ip};

/// Whatever runs on it is killed when it is dropped.
pub struct Host {
    /// Of the namespace, and of the cable's end at the switch.
    name: String,
    address: String,
}

/// Nobody has this one: what is sent to it is lost.
const NOBODY: &str = "02:00:00:00:00:01";
/// A killed process may have to wait for the disk before it is gone.
const KILLED: Duration = Duration::from_secs(20);

impl Host {
    pub(super) fn plug_in(switch: String, number: u32, address: String) -> Host {
        let host = Host {
            name: format!("{switch}n{number}"),
            address,
        };
        let Host { name, address } = &host;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name} type veth peer name eth0 netns {name}"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} addr add {address}/{} dev eth0", super::BITS));
        ip(&format!("-n {name} link set eth0 up"));
        ip(&format!("link set {name} master {switch} up"));
        host
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A program on this host; with the names that a file like /etc/resolv.conf leads to.
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

    /// Pulls the cable: what is sent vanishes, nobody is told.
    pub fn cut(&self) {
        ip(&format!("link set {} down", self.name));
    }

    pub fn heal(&self) {
        ip(&format!("link set {} up", self.name));
    }

    /// What this one sends to the other is lost. It hears the other as before.
    pub fn mute(&self, to: &Host) {
        let Host { name, .. } = self;
        let to = &to.address;
        ip(&format!(
            "-n {name} neigh replace {to} lladdr {NOBODY} dev eth0 nud permanent"
        ));
    }

    pub fn unmute(&self, to: &Host) {
        ip(&format!("-n {} neigh del {} dev eth0", self.name, to.address));
    }

    /// Everything that runs here.
    pub fn processes(&self) -> Vec<i32> {
        processes(&self.name)
    }

    /// SIGKILL to everything that runs here, and gone when this returns.
    pub fn kill_all(&self) {
        kill_all(&self.name);
    }

    pub(super) fn clear_away(name: &str) {
        kill_all(name);
        let _ = try_ip(&format!("netns del {name}"));
        // The cable goes with the namespace, but only when the kernel gets to it.
        let _ = try_ip(&format!("link del {name}"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        Host::clear_away(&self.name);
    }
}

fn kill_all(name: &str) {
    let begun = Instant::now();
    loop {
        let found = processes(name);
        if found.is_empty() || begun.elapsed() > KILLED {
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
