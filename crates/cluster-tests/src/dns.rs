//! A name server that says what the test wants it to say.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Host;

const STARTS: Duration = Duration::from_secs(20);
const READS: Duration = Duration::from_secs(20);

/// dnsmasq on a host of its own.
pub struct Dns {
    child: Child,
    hosts: PathBuf,
    resolver: PathBuf,
    host: Host,
}

impl Dns {
    /// Knows no name at first.
    pub fn start(host: Host, folder: &Path) -> Dns {
        let [hosts, resolver, log] = ["hosts", "resolv.conf", "dnsmasq.log"].map(|name| folder.join(name));
        fs::write(&hosts, "").expect("a file of hosts");
        let text = format!("nameserver {}\noptions timeout:1 attempts:3\n", host.address());
        fs::write(&resolver, text).expect("a resolv.conf");
        // As Debian installs it, which is not on everyone's path.
        let child = host
            .command(None, Path::new("/usr/sbin/dnsmasq"))
            .args([
                "--keep-in-foreground",
                "--no-resolv",
                "--no-hosts",
                "--conf-file=",
            ])
            .args(["--user=root", "--pid-file=", "--bind-interfaces", "--local-ttl=0"])
            // Nothing is asked of anybody else.
            .args(["--local=//", "--log-facility=-"])
            .arg(format!("--addn-hosts={}", hosts.display()))
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("`dnsmasq` of dnsmasq-base");
        // A signal before it is ready for one would end it.
        let begun = Instant::now();
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("started")) {
            assert!(
                begun.elapsed() < STARTS,
                "dnsmasq does not start: {}",
                log.display()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Dns {
            child,
            hosts,
            resolver,
            host,
        }
    }

    /// From now on these are all the addresses of the name, and there is no other name.
    pub fn answer(&self, name: &str, addresses: &[&str]) {
        let mut text = String::new();
        for address in addresses {
            let _ = writeln!(text, "{address} {name}");
        }
        fs::write(&self.hosts, text).expect("a file of hosts");
        let dnsmasq = Pid::from_raw(self.child.id() as i32);
        kill(dnsmasq, Signal::SIGHUP).expect("dnsmasq is there");
        // Until it has read them, it answers as before.
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

    /// The addresses that a program on this host finds under the name, sorted.
    pub fn lookup(&self, host: &Host, name: &str) -> Vec<String> {
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

    /// A file like /etc/resolv.conf that leads here.
    pub fn resolver(&self) -> &Path {
        &self.resolver
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
