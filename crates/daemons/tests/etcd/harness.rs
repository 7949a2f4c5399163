//! Clusters of etcd daemons for tests: each node has a loopback address that no other test uses, and its daemon is a
//! task.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use boot::BootConnection;
use daemons::etcd::{
    BootstrapMode, DnsResolver, EtcdDaemonError, EtcdMember, EtcdMemberOptions, EtcdMemberState,
    EtcdProxyOptions, PreJoinCheck, ProxySeeds, list_members, run_member, run_proxy, saved_endpoints,
};
use etcd_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::{EtcdAccess, EtcdLogin};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Far longer than anything in these tests takes, even if many tests run at once.
const DEADLINE: Duration = Duration::from_secs(90);
/// The daemons wait as long as the tests that wait for them.
const TRIES: u32 = 90;

/// The data folders, ports and DNS names of the nodes in one test of the etcd daemon. Nodes have numbers, from which
/// follow their names and addresses.
pub(crate) struct EtcdTestCluster {
    folder: tempfile::TempDir,
    client_port: u16,
    peer_port: u16,
    pub(crate) login: Option<EtcdLogin>,
    pub(crate) dns: FakeDns,
}

/// A fake DNS for tests of the etcd daemon, which resolves one name to addresses that the test sets.
#[derive(Clone, Default)]
pub(crate) struct FakeDns(Arc<Mutex<Vec<IpAddr>>>);

impl FakeDns {
    pub(crate) fn set(&self, nodes: &[u8]) {
        *self.0.lock().unwrap() = nodes.iter().map(|node| ip(*node)).collect();
    }

    pub(crate) fn resolver(&self) -> DnsResolver {
        let seen = self.0.clone();
        DnsResolver::new(move |name| {
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

/// Every test is a process, and the process id makes its addresses unique.
pub(crate) fn ip(node: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // 127.0.0.x and 127.255.x.x may be in use on the machine.
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

impl EtcdTestCluster {
    pub(crate) fn new() -> EtcdTestCluster {
        let client_port = free_port(0);
        EtcdTestCluster {
            folder: tempfile::tempdir().unwrap(),
            client_port,
            peer_port: free_port(client_port),
            login: None,
            dns: FakeDns::default(),
        }
    }

    /// The nodes are called `n1`, `n2`, and so on.
    pub(crate) fn options(&self, node: u8, bootstrap: BootstrapMode) -> EtcdMemberOptions {
        EtcdMemberOptions {
            name: format!("n{node}"),
            program: "etcd".into(),
            data: self.data(node),
            host: ip(node).to_string(),
            client_port: self.client_port,
            peer_port: self.peer_port,
            bootstrap,
            tries: TRIES,
            quota: 64 << 20,
            login: self.login.clone(),
            tls: None,
            parent_death_wrapper: Vec::new(),
            resolver: self.dns.resolver(),
            pre_join_check: PreJoinCheck::always_pass(),
        }
    }

    pub(crate) fn start(&self, node: u8, bootstrap: BootstrapMode) -> EtcdTestNode {
        EtcdTestNode::start(self.options(node, bootstrap))
    }

    pub(crate) fn proxy_options(&self, node: u8, seeds: ProxySeeds) -> EtcdProxyOptions {
        EtcdProxyOptions {
            program: "etcd".into(),
            data: self.data(node),
            host: ip(node).to_string(),
            client_port: self.client_port,
            seeds,
            tries: TRIES,
            login: self.login.clone(),
            tls: None,
            parent_death_wrapper: Vec::new(),
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

    pub(crate) fn founders(&self, nodes: &[u8]) -> BootstrapMode {
        BootstrapMode::Members(nodes.iter().map(|n| (format!("n{n}"), self.peer(*n))).collect())
    }

    pub(crate) fn join(&self, nodes: &[u8]) -> BootstrapMode {
        BootstrapMode::Join(nodes.iter().map(|n| self.client(*n)).collect())
    }

    pub(crate) fn discover(&self, expect: Option<u32>) -> BootstrapMode {
        let name = "judicators".to_string();
        BootstrapMode::Discover { name, expect }
    }

    pub(crate) fn access(&self, node: u8) -> EtcdAccess {
        EtcdAccess {
            endpoints: vec![self.client(node)],
            login: self.login.clone(),
            tls: None,
            cluster_id: None,
        }
    }

    /// Starts three nodes that found a cluster together, and waits until all serve.
    pub(crate) async fn start_three_founders(&self) -> [EtcdTestNode; 3] {
        let mut nodes = [1, 2, 3].map(|node| self.start(node, self.founders(&[1, 2, 3])));
        for node in &mut nodes {
            node.wait_until_serving().await;
        }
        nodes
    }

    /// Waits until a member answers: during an election none does.
    #[track_caller]
    pub(crate) fn members_when_available(&self, through: u8) -> impl Future<Output = Vec<EtcdMember>> {
        wait_for_members(self.access(through), "an answer", |_| true)
    }

    /// Waits until these are the members, all of them are full members that answer, and one is the leader.
    #[track_caller]
    pub(crate) fn wait_until_healthy(
        &self,
        through: u8,
        nodes: &[u8],
    ) -> impl Future<Output = Vec<EtcdMember>> {
        let names: Vec<String> = nodes.iter().map(|n| format!("n{n}")).collect();
        wait_for_members(self.access(through), format!("{names:?}"), move |seen| {
            seen.iter().map(|member| &member.name).eq(&names)
                && seen.iter().all(is_full_member)
                && seen.iter().filter(|member| is_leader(member)).count() == 1
        })
    }

    /// A program that prints etcd's version, and for all other arguments runs `script`.
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

fn is_full_member(member: &EtcdMember) -> bool {
    is_leader(member) || member.state == EtcdMemberState::Follower
}

fn is_leader(member: &EtcdMember) -> bool {
    member.state == EtcdMemberState::Leader
}

/// Waits until the members are as `condition` requires.
#[track_caller]
pub(crate) fn wait_for_members(
    access: EtcdAccess,
    what: impl Display,
    condition: impl Fn(&[EtcdMember]) -> bool,
) -> impl Future<Output = Vec<EtcdMember>> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let seen = list_members(&access).await;
            if let Ok(seen) = &seen
                && condition(seen)
            {
                return seen.clone();
            }
            assert!(Instant::now() < deadline, "{caller}: still not {what}: {seen:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A node in a test of the etcd daemon, whose daemon runs as a Tokio task of the test. Dropping it ends the daemon and
/// kills its etcd.
pub(crate) struct EtcdTestNode {
    pub(crate) options: EtcdMemberOptions,
    stop: CancellationToken,
    task: JoinHandle<Result<(), EtcdDaemonError>>,
}

impl Drop for EtcdTestNode {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdTestNode {
    pub(crate) fn start(options: EtcdMemberOptions) -> EtcdTestNode {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run_member(options.clone(), BootConnection::none(), stop.clone()));
        EtcdTestNode { options, stop, task }
    }

    fn client(&self) -> String {
        format!("{}:{}", self.options.host, self.options.client_port)
    }

    /// The daemon writes the endpoints when the member is ready for use.
    pub(crate) async fn wait_until_serving(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        while !saved_endpoints(&self.options.data).contains(&self.client()) {
            if self.task.is_finished() {
                panic!("{} ended: {:?}", self.options.name, (&mut self.task).await);
            }
            assert!(Instant::now() < deadline, "{} does not serve", self.options.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops the daemon in order, like SIGTERM.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }

    /// Ends the daemon at once, like SIGKILL.
    pub(crate) async fn crash(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.wait_until_ports_free().await;
    }

    /// Leaves the daemon's state files, but not etcd's data.
    pub(crate) async fn crash_and_delete_data(self) {
        let data = self.options.data.join("data");
        self.crash().await;
        fs::remove_dir_all(data).unwrap();
    }

    /// Leaves neither state files nor data.
    pub(crate) async fn crash_and_delete_folder(self) {
        let data = self.options.data.clone();
        self.crash().await;
        fs::remove_dir_all(data).unwrap();
    }

    /// Waits until the daemon ends with an error, and returns its message.
    pub(crate) async fn wait_for_failure(mut self) -> String {
        let ended = tokio::time::timeout(DEADLINE, &mut self.task).await;
        ended
            .expect("the daemon does not end")
            .unwrap()
            .unwrap_err()
            .to_string()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    async fn wait_until_ports_free(&self) {
        let host: IpAddr = self.options.host.parse().unwrap();
        for port in [self.options.client_port, self.options.peer_port] {
            wait_until("a killed etcd is gone", || {
                TcpListener::bind((host, port)).is_ok()
            })
            .await;
        }
    }
}

/// A node in a test of the etcd daemon that runs an etcd proxy, with its daemon as a Tokio task. Dropping it ends the
/// daemon and kills its proxy.
pub(crate) struct EtcdTestProxy {
    stop: CancellationToken,
    task: JoinHandle<Result<(), EtcdDaemonError>>,
}

impl Drop for EtcdTestProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdTestProxy {
    pub(crate) fn start(options: EtcdProxyOptions) -> EtcdTestProxy {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run_proxy(options, BootConnection::none(), stop.clone()));
        EtcdTestProxy { stop, task }
    }

    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }

    pub(crate) async fn wait_for_failure(mut self) -> String {
        let ended = tokio::time::timeout(DEADLINE, &mut self.task).await;
        ended
            .expect("the daemon does not end")
            .unwrap()
            .unwrap_err()
            .to_string()
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

/// The process id and all arguments of the process that was started with this argument, if it runs.
pub(crate) fn find_process_with_argument(argument: &str) -> Option<(i32, Vec<String>)> {
    sorted_paths(Path::new("/proc")).into_iter().find_map(|folder| {
        let line = fs::read_to_string(folder.join("cmdline")).ok()?;
        let args: Vec<String> = line.split('\0').map(str::to_string).collect();
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        args.iter().any(|arg| arg == argument).then_some((pid, args))
    })
}

/// Suspends the server that was started with this argument. Its daemon is not notified.
pub(crate) fn suspend_server(argument: &str) {
    let (pid, _) = find_process_with_argument(argument).expect("no such server");
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + DEADLINE;
        while !condition() {
            assert!(Instant::now() < deadline, "{caller}: still not: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Repeats a request until it succeeds.
async fn retry_until_ok<T>(what: &str, attempt: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn connect_when_available(access: &EtcdAccess) -> Client {
    retry_until_ok("could not connect to etcd", async || Ok(access.connect().await?)).await
}

pub(crate) async fn put(access: &EtcdAccess, key: &str, value: &str) {
    retry_until_ok(&format!("could not write {key}"), async || {
        access.connect().await?.put(key, value, None).await?;
        Ok(())
    })
    .await;
}

pub(crate) async fn get(access: &EtcdAccess, key: &str) -> Option<String> {
    retry_until_ok(&format!("could not read {key}"), async || {
        let answer = access.connect().await?.get(key, None).await?;
        let value = answer.kvs().first().map(|pair| pair.value_str());
        Ok(value.transpose()?.map(str::to_string))
    })
    .await
}

/// Waits until etcd refuses a request without a login. An etcd that does not answer, or has no leader, has not
/// refused it.
pub(crate) async fn wait_until_anonymous_is_refused(anonymous: &EtcdAccess) {
    retry_until_ok(
        "a request without a login is not refused",
        async || match anonymous.connect().await?.get("key", None).await {
            Ok(_) => panic!("read without a login"),
            Err(refused) if refused.to_string().contains("user name is empty") => Ok(()),
            Err(error) => Err(error.into()),
        },
    )
    .await;
}

pub(crate) fn sorted_paths(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}
