//! etcd members and proxies as child processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::Access;

use super::stage::{DEADLINE, insist};

/// A process that is killed with the value. What it last said is shown when a test fails.
pub(super) struct Server {
    args: Vec<String>,
    log: PathBuf,
    child: Child,
    /// Where it serves clients.
    pub(super) endpoint: String,
}

impl Server {
    fn start(args: Vec<String>, log: PathBuf, endpoint: String) -> Server {
        let child = spawn(&args, &log);
        Server {
            args,
            log,
            child,
            endpoint,
        }
    }

    /// As kill -9 does.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What was killed is started again, with the same data at the same address.
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

impl Drop for Server {
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

/// Some members that are one cluster.
pub(super) struct Cluster {
    pub(super) members: Vec<Server>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Serves when this returns.
    pub(super) async fn start(size: usize) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let ports = free(2 * size);
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
                Server::start(words(&args), log, client.clone())
            })
            .collect();
        let cluster = Cluster { members, folder };
        cluster.serves().await;
        cluster
    }

    pub(super) fn access(&self) -> Access {
        at(self
            .members
            .iter()
            .map(|member| member.endpoint.clone())
            .collect())
    }

    pub(super) fn first(&mut self) -> &mut Server {
        &mut self.members[0]
    }

    /// The member that leads etcd.
    pub(super) async fn leader(&self) -> usize {
        // Asked one after another: an election in between may leave all of them followers.
        insist("no member of etcd leads", async || {
            for (at, member) in self.members.iter().enumerate() {
                let status = at_one(member).connect().await?.status().await?;
                let own = status.header().ok_or("an answer without a header")?.member_id();
                if own == status.leader() {
                    return Ok(at);
                }
            }
            Err("all of them follow".into())
        })
        .await
    }

    /// A proxy in front of all members.
    pub(super) async fn proxy(&self) -> Server {
        let endpoint = free(1).remove(0);
        let args = format!(
            "grpc-proxy start --listen-addr {endpoint} --advertise-client-url {endpoint} --endpoints {}",
            self.access().endpoints.join(","),
        );
        let proxy = Server::start(words(&args), self.folder.path().join("proxy.log"), endpoint);
        answers(&at_one(&proxy)).await;
        proxy
    }

    pub(super) async fn serves(&self) {
        for member in &self.members {
            answers(&at_one(member)).await;
        }
    }
}

pub(super) fn at_one(server: &Server) -> Access {
    at(vec![server.endpoint.clone()])
}

fn at(endpoints: Vec<String>) -> Access {
    Access {
        endpoints,
        login: None,
        tls: None,
        cluster: None,
    }
}

/// Also where users are asked who they are: to say no is an answer.
async fn answers(access: &Access) {
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

/// Each test process has a loopback address of its own, where nobody else takes ports.
fn free(count: usize) -> Vec<String> {
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
