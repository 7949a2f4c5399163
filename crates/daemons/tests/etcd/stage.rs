//! Nodes at loopback addresses that no other test has, with the daemon of each as a task.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use boot::Tether;
use daemons::etcd::{
    Admission, EtcdError, MemberSeen, MemberState, Options, ProxyOptions, Resolver, Seeds, Start,
    known_endpoints, member, members, proxy,
};
use etcd_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::{Access, Login};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far longer than anything here takes, also where many tests run at once.
const PATIENCE: Duration = Duration::from_secs(90);
/// A daemon gives up no sooner than the test that waits for it.
const TRIES: u32 = 90;

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    client_port: u16,
    peer_port: u16,
    pub(crate) login: Option<Login>,
    pub(crate) dns: Dns,
}

/// What the DNS name stands for just now.
#[derive(Clone, Default)]
pub(crate) struct Dns(Arc<Mutex<Vec<IpAddr>>>);

impl Dns {
    pub(crate) fn set(&self, nodes: &[u8]) {
        *self.0.lock().unwrap() = nodes.iter().map(|node| ip(*node)).collect();
    }

    pub(crate) fn resolver(&self) -> Resolver {
        let seen = self.0.clone();
        Resolver::new(move |name| {
            let seen = seen.lock().unwrap().clone();
            let known = name == "tasks.judicators" && !seen.is_empty();
            Box::pin(async move {
                match known {
                    true => Ok(seen),
                    false => Err(std::io::Error::other("unknown name")),
                }
            })
        })
    }
}

/// Each test is a process of its own: its id keeps its addresses apart from those of the others.
pub(crate) fn ip(node: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // 127.0.0.x and 127.255.x.x may mean something to somebody.
    [127, 1 + high % 250, low, node].into()
}

fn free_port(except: u16) -> u16 {
    loop {
        let listener = TcpListener::bind((ip(1), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if port != except {
            return port;
        }
    }
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let client_port = free_port(0);
        Stage {
            folder: tempfile::tempdir().unwrap(),
            client_port,
            peer_port: free_port(client_port),
            login: None,
            dns: Dns::default(),
        }
    }

    /// Nodes are called `n1`, `n2`, and so on.
    pub(crate) fn options(&self, node: u8, start: Start) -> Options {
        Options {
            name: format!("n{node}"),
            program: "etcd".into(),
            data: self.data(node),
            host: ip(node).to_string(),
            client_port: self.client_port,
            peer_port: self.peer_port,
            start,
            tries: TRIES,
            quota: 64 << 20,
            login: self.login.clone(),
            tls: None,
            leash: Vec::new(),
            resolver: self.dns.resolver(),
            admission: Admission::free(),
        }
    }

    pub(crate) fn start(&self, node: u8, start: Start) -> Node {
        Node::start(self.options(node, start))
    }

    pub(crate) fn proxy_options(&self, node: u8, seeds: Seeds) -> ProxyOptions {
        ProxyOptions {
            program: "etcd".into(),
            data: self.data(node),
            host: ip(node).to_string(),
            client_port: self.client_port,
            seeds,
            tries: TRIES,
            login: self.login.clone(),
            tls: None,
            leash: Vec::new(),
            resolver: self.dns.resolver(),
        }
    }

    pub(crate) fn data(&self, node: u8) -> PathBuf {
        self.folder.path().join(format!("n{node}"))
    }

    pub(crate) fn client(&self, node: u8) -> String {
        format!("{}:{}", ip(node), self.client_port)
    }

    pub(crate) fn peer(&self, node: u8) -> String {
        format!("{}:{}", ip(node), self.peer_port)
    }

    pub(crate) fn founders(&self, nodes: &[u8]) -> Start {
        Start::Members(nodes.iter().map(|n| (format!("n{n}"), self.peer(*n))).collect())
    }

    pub(crate) fn join(&self, nodes: &[u8]) -> Start {
        Start::Join(nodes.iter().map(|n| self.client(*n)).collect())
    }

    pub(crate) fn discover(&self, expect: Option<u32>) -> Start {
        let name = "judicators".to_string();
        Start::Discover { name, expect }
    }

    pub(crate) fn access(&self, node: u8) -> Access {
        Access {
            endpoints: vec![self.client(node)],
            login: self.login.clone(),
            tls: None,
            cluster: None,
        }
    }

    /// Three nodes that founded a cluster together.
    pub(crate) async fn three(&self) -> [Node; 3] {
        let mut nodes = [1, 2, 3].map(|node| self.start(node, self.founders(&[1, 2, 3])));
        for node in &mut nodes {
            node.serves().await;
        }
        nodes
    }

    /// As soon as somebody speaks for the cluster: while it elects, nobody does.
    #[track_caller]
    pub(crate) fn members(&self, through: u8) -> impl Future<Output = Vec<MemberSeen>> {
        members_once(self.access(through), "an answer", |_| true)
    }

    /// Waits until the members are these, and all of them full ones that answer and follow one leader.
    #[track_caller]
    pub(crate) fn all_well(&self, through: u8, nodes: &[u8]) -> impl Future<Output = Vec<MemberSeen>> {
        let names: Vec<String> = nodes.iter().map(|n| format!("n{n}")).collect();
        members_once(self.access(through), format!("{names:?}"), move |seen| {
            seen.iter().map(|member| &member.name).eq(&names)
                && seen.iter().all(is_full)
                && seen.iter().filter(|member| leads(member)).count() == 1
        })
    }

    /// An etcd that is another program whenever it is to do more than tell its version.
    pub(crate) fn fake_etcd(&self, script: &str) -> PathBuf {
        let path = self.folder.path().join("fake-etcd");
        let mut file = fs::File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o755)
            .open(&path)
            .unwrap();
        write!(
            file,
            "#!/bin/sh\n[ \"$1\" = --version ] && exec etcd --version\n{script}\n"
        )
        .unwrap();
        path
    }
}

fn is_full(member: &MemberSeen) -> bool {
    leads(member) || member.state == MemberState::Follower
}

fn leads(member: &MemberSeen) -> bool {
    member.state == MemberState::Leader
}

/// Waits until they are seen as they should be.
#[track_caller]
pub(crate) fn members_once(
    access: Access,
    what: impl Display,
    good: impl Fn(&[MemberSeen]) -> bool,
) -> impl Future<Output = Vec<MemberSeen>> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = members(&access).await;
            if let Ok(seen) = &seen
                && good(seen)
            {
                return seen.clone();
            }
            assert!(Instant::now() < deadline, "{caller}: still not {what}: {seen:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Dropping it ends the daemon and kills its etcd.
pub(crate) struct Node {
    pub(crate) options: Options,
    stop: CancellationToken,
    task: JoinHandle<Result<(), EtcdError>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    pub(crate) fn start(options: Options) -> Node {
        let stop = CancellationToken::new();
        let task = tokio::spawn(member(options.clone(), Tether::none(), stop.clone()));
        Node { options, stop, task }
    }

    fn client(&self) -> String {
        format!("{}:{}", self.options.host, self.options.client_port)
    }

    /// The endpoints are written when all is done that comes before the first use.
    pub(crate) async fn serves(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !known_endpoints(&self.options.data).contains(&self.client()) {
            if self.task.is_finished() {
                panic!("{} ended: {:?}", self.options.name, (&mut self.task).await);
            }
            assert!(Instant::now() < deadline, "{} does not serve", self.options.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// As SIGTERM would.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }

    /// As SIGKILL would: nothing is put in order.
    pub(crate) async fn crash(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.ports_free().await;
    }

    /// A node of which nothing is left but its notes.
    pub(crate) async fn lose_data(self) {
        let data = self.options.data.join("data");
        self.crash().await;
        fs::remove_dir_all(data).unwrap();
    }

    /// Of which nothing at all is left.
    pub(crate) async fn lose_all(self) {
        let data = self.options.data.clone();
        self.crash().await;
        fs::remove_dir_all(data).unwrap();
    }

    /// Waits for the daemon to end with an error, and tells it.
    pub(crate) async fn fails(mut self) -> String {
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await;
        ended.expect("it goes on").unwrap().unwrap_err().to_string()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    async fn ports_free(&self) {
        let host: IpAddr = self.options.host.parse().unwrap();
        for port in [self.options.client_port, self.options.peer_port] {
            wait_until("a killed etcd is gone", || {
                TcpListener::bind((host, port)).is_ok()
            })
            .await;
        }
    }
}

/// A proxy's daemon.
pub(crate) struct Proxy {
    stop: CancellationToken,
    task: JoinHandle<Result<(), EtcdError>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub(crate) fn start(options: ProxyOptions) -> Proxy {
        let stop = CancellationToken::new();
        let task = tokio::spawn(proxy(options, Tether::none(), stop.clone()));
        Proxy { stop, task }
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }

    pub(crate) async fn fails(mut self) -> String {
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await;
        ended.expect("it goes on").unwrap().unwrap_err().to_string()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

/// The process and all arguments of the server that was started with this one, if it runs.
pub(crate) fn server_with(argument: &str) -> Option<(i32, Vec<String>)> {
    contents(Path::new("/proc")).into_iter().find_map(|folder| {
        let line = fs::read_to_string(folder.join("cmdline")).ok()?;
        let args: Vec<String> = line.split('\0').map(str::to_string).collect();
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        args.iter().any(|arg| arg == argument).then_some((pid, args))
    })
}

/// Stops it where it is, without a word to its daemon.
pub(crate) fn pause(argument: &str) {
    let (pid, _) = server_with(argument).expect("no such server");
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "{caller}: still not: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Tries until it works, as every client of a cluster has to.
async fn insist<T>(what: &str, attempt: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn reached(access: &Access) -> Client {
    insist("etcd is not reached", async || Ok(access.connect().await?)).await
}

pub(crate) async fn put(access: &Access, key: &str, value: &str) {
    insist(&format!("{key} cannot be written"), async || {
        access.connect().await?.put(key, value, None).await?;
        Ok(())
    })
    .await;
}

pub(crate) async fn get(access: &Access, key: &str) -> Option<String> {
    insist(&format!("{key} cannot be read"), async || {
        let answer = access.connect().await?.get(key, None).await?;
        let value = answer.kvs().first().map(|pair| pair.value_str());
        Ok(value.transpose()?.map(str::to_string))
    })
    .await
}

/// Waits until etcd itself says no to whoever does not log in: that it is silent, or elects, is no answer.
pub(crate) async fn refuses(anonymous: &Access) {
    insist("it is not refused", async || {
        match anonymous.connect().await?.get("key", None).await {
            Ok(_) => panic!("read without a login"),
            Err(refused) if refused.to_string().contains("user name is empty") => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
    .await;
}

pub(crate) fn contents(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}
