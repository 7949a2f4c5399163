//! A DNS server whose answers the test sets.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::LanHost;

const STARTS: Duration = Duration::from_secs(20);
const READS: Duration = Duration::from_secs(20);

/// dnsmasq on a virtual host of a test cluster, with answers that the test sets.
pub struct DnsServer {
    child: Child,
    hosts: PathBuf,
    resolver: PathBuf,
    host: LanHost,
}

impl DnsServer {
    /// Starts the server without any names.
    pub fn start(host: LanHost, folder: &Path) -> DnsServer {
        let [hosts, resolver, log] = ["hosts", "resolv.conf", "dnsmasq.log"].map(|name| folder.join(name));
        fs::write(&hosts, "").expect("a file of hosts");
        let text = format!("nameserver {}\noptions timeout:1 attempts:3\n", host.address());
        fs::write(&resolver, text).expect("a resolv.conf");
        // Debian installs it in a folder that is not on every user's PATH.
        let child = host
            .command(None, Path::new("/usr/sbin/dnsmasq"))
            .args([
                "--keep-in-foreground",
                "--no-resolv",
                "--no-hosts",
                "--conf-file=",
            ])
            .args(["--user=root", "--pid-file=", "--bind-interfaces", "--local-ttl=0"])
            // No query is forwarded to another server.
            .args(["--local=//", "--log-facility=-"])
            .arg(format!("--addn-hosts={}", hosts.display()))
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("`dnsmasq` of dnsmasq-base");
        // SIGHUP before dnsmasq has installed its handler would end it.
        let begun = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("started")) {
            assert!(
                begun.elapsed() < STARTS,
                "dnsmasq does not start: {}",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        DnsServer {
            child,
            hosts,
            resolver,
            host,
        }
    }

    /// Resolves the name to these addresses, and no other name.
    pub fn answer(&self, name: &str, addresses: &[&str]) {
        let mut text = String::new();
        for address in addresses {
            let _ = writeln!(text, "{address} {name}");
        }
        fs::write(&self.hosts, text).expect("a file of hosts");
        let dnsmasq = Pid::from_raw(self.child.id() as i32);
        kill(dnsmasq, Signal::SIGHUP).expect("dnsmasq is there");
        // dnsmasq answers as before until it has read the file.
        let mut wanted = addresses.to_vec();
        wanted.sort_unstable();
        let begun = Instant::now();
        while self.lookup(&self.host, name) != wanted {
            assert!(
                begun.elapsed() < READS,
                "dnsmasq does not answer {wanted:?} for {name}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The addresses to which the name resolves on this host, sorted.
    pub fn lookup(&self, host: &LanHost, name: &str) -> Vec<String> {
        let output = host
            .command(Some(&self.resolver), Path::new("getent"))
            .args(["ahostsv4", name])
            .output()
            .expect("getent starts");
        let output = String::from_utf8_lossy(&output.stdout);
        let lines = output.lines().filter(|line| line.contains("STREAM"));
        let mut found: Vec<_> = lines
            .filter_map(|line| line.split(' ').next())
            .map(str::to_string)
            .collect();
        found.sort_unstable();
        found
    }

    /// A resolv.conf that names this server.
    pub fn resolver(&self) -> &Path {
        &self.resolver
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
