//! etcd members and proxies as child processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::EtcdAccess;

use super::harness::{DEADLINE, retry_until_ok};

/// An etcd member or proxy that a registry test runs as a child process. Dropping it kills the process and, if the test
/// failed, prints the end of its log.
pub(super) struct EtcdProcess {
    args: Vec<String>,
    log: PathBuf,
    child: Child,
    /// The address where it serves clients.
    pub(super) endpoint: String,
}

impl EtcdProcess {
    fn start(args: Vec<String>, log: PathBuf, endpoint: String) -> EtcdProcess {
        let child = spawn(&args, &log);
        EtcdProcess {
            args,
            log,
            child,
            endpoint,
        }
    }

    /// Kills the process with SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a killed process again, with the same data and address.
    pub(super) fn restart(&mut self) {
        self.child = spawn(&self.args, &self.log);
    }

    pub(super) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(super) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.args.join(" "), tail(&self.log));
        }
    }
}

fn spawn(args: &[String], log: &Path) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
    Command::new("etcd")
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("these tests need etcd on PATH (Debian: etcd-server)")
}

fn tail(log: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(mut log) = File::open(log) {
        let size = log.metadata().map_or(0, |about| about.len());
        let _ = log.seek(SeekFrom::Start(size.saturating_sub(3000)));
        let _ = log.read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// An etcd cluster of child processes, for registry tests.
pub(super) struct EtcdCluster {
    pub(super) members: Vec<EtcdProcess>,
    folder: tempfile::TempDir,
}

impl EtcdCluster {
    /// The cluster serves requests when this returns.
    pub(super) async fn start(size: usize) -> EtcdCluster {
        let folder = tempfile::tempdir().unwrap();
        let ports = free_addresses(2 * size);
        let peers: Vec<_> = (0..size)
            .map(|at| format!("m{at}=http://{}", ports[2 * at + 1]))
            .collect();
        let members = (0..size)
            .map(|at| {
                let (client, peer) = (&ports[2 * at], &ports[2 * at + 1]);
                let data = folder.path().join(format!("m{at}"));
                let args = format!(
                    "--name m{at} --data-dir {} --pre-vote --bcrypt-cost 4 --initial-cluster {} \
                     --listen-client-urls http://{client} --advertise-client-urls http://{client} \
                     --listen-peer-urls http://{peer} --initial-advertise-peer-urls http://{peer}",
                    data.display(),
                    peers.join(","),
                );
                let log = folder.path().join(format!("m{at}.log"));
                EtcdProcess::start(words(&args), log, client.clone())
            })
            .collect();
        let cluster = EtcdCluster { members, folder };
        cluster.wait_until_serving().await;
        cluster
    }

    pub(super) fn access(&self) -> EtcdAccess {
        access_at(
            self.members
                .iter()
                .map(|member| member.endpoint.clone())
                .collect(),
        )
    }

    pub(super) fn first(&mut self) -> &mut EtcdProcess {
        &mut self.members[0]
    }

    /// The index of the etcd member that leads.
    pub(super) async fn leader(&self) -> usize {
        // The members are asked one after another, so during an election all of them may answer as followers.
        retry_until_ok("no etcd member leads", async || {
            for (at, member) in self.members.iter().enumerate() {
                let status = access_to(member).connect().await?.status().await?;
                let own = status.header().ok_or("the answer has no header")?.member_id();
                if own == status.leader() {
                    return Ok(at);
                }
            }
            Err("all members are followers".into())
        })
        .await
    }

    /// Starts a proxy in front of all members.
    pub(super) async fn proxy(&self) -> EtcdProcess {
        let endpoint = free_addresses(1).remove(0);
        let args = format!(
            "grpc-proxy start --listen-addr {endpoint} --advertise-client-url {endpoint} --endpoints {}",
            self.access().endpoints.join(","),
        );
        let proxy = EtcdProcess::start(words(&args), self.folder.path().join("proxy.log"), endpoint);
        wait_until_answering(&access_to(&proxy)).await;
        proxy
    }

    pub(super) async fn wait_until_serving(&self) {
        for member in &self.members {
            wait_until_answering(&access_to(member)).await;
        }
    }
}

pub(super) fn access_to(server: &EtcdProcess) -> EtcdAccess {
    access_at(vec![server.endpoint.clone()])
}

fn access_at(endpoints: Vec<String>) -> EtcdAccess {
    EtcdAccess {
        endpoints,
        login: None,
        tls: None,
        cluster_id: None,
    }
}

/// Waits until etcd answers. With authentication enabled, a refusal is an answer too.
async fn wait_until_answering(access: &EtcdAccess) {
    let asked = async {
        loop {
            if let Ok(mut client) = access.connect().await {
                match client.get("/", None).await {
                    Ok(_) => return,
                    Err(refused) if refused.to_string().contains("user name is empty") => return,
                    Err(_) => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, asked)
        .await
        .unwrap_or_else(|_| panic!("{:?} does not serve", access.endpoints));
}

/// Free ports on a loopback address of this test process, where no other process takes ports.
fn free_addresses(count: usize) -> Vec<String> {
    let pid = std::process::id();
    let host = format!(
        "127.{}.{}.{}",
        1 + pid / 62_500 % 250,
        1 + pid / 250 % 250,
        1 + pid % 250
    );
    let bound: Vec<_> = (0..count)
        .map(|_| TcpListener::bind((host.as_str(), 0)).unwrap())
        .collect();
    bound
        .iter()
        .map(|listener| listener.local_addr().unwrap().to_string())
        .collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
