//! A real etcd for each test, and mongod daemons as tasks. All processes end when the test ends, however it ends.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use boot::BootConnection;
use daemons::mongodb::{
    MemberAction, MongodDaemon, MongodDaemonOptions, MongodbDaemonError, RecheckDelay, ReplicaSetMember,
    login_from_secret, replica_set_members, run,
};
use etcd_client::{GetOptions, GetResponse};
use mongodb::Database;
use mongodb::options::{ClientOptions, Credential, ServerAddress, WriteConcern};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::EtcdAccess;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SECRET: &str = "a secret for tests only";
/// Far longer than anything in these tests takes, even if many tests run at once.
const DEADLINE: Duration = Duration::from_secs(120);

/// The etcd, data folders, ports and daemons of one test of the mongod daemon, by the names of the nodes.
pub(crate) struct ReplicaSetHarness {
    pub(crate) access: EtcdAccess,
    pub(crate) secret: Option<String>,
    folder: TempDir,
    ports: HashMap<String, u16>,
    daemons: HashMap<String, RunningDaemon>,
    etcd: Child,
}

/// A mongod daemon that a test runs as a Tokio task.
struct RunningDaemon {
    stop: CancellationToken,
    task: JoinHandle<Result<(), MongodbDaemonError>>,
}

impl Drop for ReplicaSetHarness {
    fn drop(&mut self) {
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

impl ReplicaSetHarness {
    pub(crate) async fn new(secret: Option<&str>) -> ReplicaSetHarness {
        let folder = tempfile::tempdir().unwrap();
        let (client, peer) = (free_port(), free_port());
        let etcd = start_etcd(folder.path(), client, peer);
        let access = EtcdAccess {
            endpoints: vec![format!("127.0.0.1:{client}")],
            login: None,
            tls: None,
            cluster_id: None,
        };
        let harness = ReplicaSetHarness {
            access,
            secret: secret.map(str::to_string),
            folder,
            ports: HashMap::new(),
            daemons: HashMap::new(),
            etcd,
        };
        harness.record("x").await;
        harness
    }

    pub(crate) fn options(&mut self, name: &str) -> MongodDaemonOptions {
        let port = *self.ports.entry(name.to_string()).or_insert_with(free_port);
        let write_pid = format!("echo $$ > '{}' && exec \"$@\"", self.pid_file(name).display());
        MongodDaemonOptions {
            name: name.to_string(),
            program: mongod(),
            data: self.data(name),
            host: "127.0.0.1".to_string(),
            port,
            set: "conclave".to_string(),
            tries: 60,
            cache: Some(256 << 20),
            secret: self.secret.clone(),
            etcd: self.access.clone(),
            lease: Duration::from_secs(2),
            parent_death_wrapper: ["/bin/sh", "-c", &write_pid].map(OsString::from).into(),
        }
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).join("mongodb")
    }

    pub(crate) fn address(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.ports[name])
    }

    pub(crate) fn start(&mut self, name: &str) {
        let options = self.options(name);
        self.start_with(options);
    }

    pub(crate) fn start_with(&mut self, options: MongodDaemonOptions) {
        self.ports.insert(options.name.clone(), options.port);
        let stop = CancellationToken::new();
        let name = options.name.clone();
        let task = tokio::spawn(run(options, BootConnection::none(), stop.clone()));
        self.daemons.insert(name, RunningDaemon { stop, task });
    }

    /// Stops the daemon in order, as boot does.
    pub(crate) async fn stop(&mut self, name: &str) {
        let daemon = self.daemons.remove(name).unwrap();
        daemon.stop.cancel();
        daemon.task.await.unwrap().unwrap();
    }

    /// Ends the daemon and its mongod at once.
    pub(crate) async fn crash(&mut self, name: &str) {
        let daemon = self.daemons.remove(name).unwrap();
        daemon.task.abort();
        let _ = daemon.task.await;
        self.wait_until_port_is_free(name).await;
    }

    /// The same for a daemon from `run_until_action`.
    pub(crate) async fn crash_daemon(&self, name: &str, daemon: MongodDaemon) {
        drop(daemon);
        self.wait_until_port_is_free(name).await;
    }

    /// A killed mongod takes a moment to release its port.
    async fn wait_until_port_is_free(&self, name: &str) {
        let address = self.address(name);
        wait_until("its port is free", async || TcpListener::bind(&address).is_ok()).await;
    }

    /// Suspends its mongod: its connections stay open, and it does not answer.
    pub(crate) fn suspend_mongod(&self, name: &str) {
        let pid = std::fs::read_to_string(self.pid_file(name)).unwrap();
        let mongod = Pid::from_raw(pid.trim().parse().unwrap());
        kill(mongod, Signal::SIGSTOP).unwrap();
    }

    /// Written by the command that starts its mongod.
    fn pid_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pid"))
    }

    /// Waits until the daemon ends with an error, and returns its message.
    pub(crate) async fn wait_for_failure(&mut self, name: &str) -> String {
        let task = self.daemons.remove(name).unwrap().task;
        let ended = tokio::time::timeout(DEADLINE, task).await;
        let ended = ended.expect("the daemon does not end").unwrap();
        ended.expect_err("the daemon ended well").to_string()
    }

    /// Ends all daemons, and returns when no process is left. If a test fails before this, dropping the harness kills
    /// everything.
    pub(crate) async fn shut_down(mut self) {
        let names: Vec<String> = self.daemons.keys().cloned().collect();
        for name in names {
            self.crash(&name).await;
        }
    }

    /// Runs a daemon that has to end with an error, and returns its message.
    pub(crate) async fn run_until_failure(&mut self, options: MongodDaemonOptions) -> String {
        let stop = CancellationToken::new();
        let task = run(options, BootConnection::none(), stop);
        match tokio::time::timeout(DEADLINE, task)
            .await
            .expect("the daemon does not end")
        {
            Ok(()) => panic!("the daemon ended well"),
            Err(error) => error.to_string(),
        }
    }

    /// Runs a daemon action by action, until `last` would be the next one.
    pub(crate) async fn run_until_action(&mut self, name: &str, last: &MemberAction) -> MongodDaemon {
        let options = self.options(name);
        let mut daemon = MongodDaemon::prepare(options, BootConnection::none())
            .await
            .unwrap();
        daemon.start().await.unwrap();
        let deadline = Instant::now() + DEADLINE;
        loop {
            assert!(Instant::now() < deadline, "{last:?} was never the next action");
            let action = next_action_of(&mut daemon).await;
            if action == *last {
                return daemon;
            }
            if execute(&mut daemon, &action).await != RecheckDelay::None {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    pub(crate) async fn members(&self) -> Vec<ReplicaSetMember> {
        retry_until_ok("the members", async || {
            Ok(replica_set_members(&self.access, self.secret.as_deref()).await?)
        })
        .await
    }

    /// Waits until there is a confirmed set with a primary, all other members are secondaries, and the votes are as
    /// in `expected`: `a+ b+ c-`.
    pub(crate) async fn wait_until_set_is(&self, expected: &str) {
        let votes = |members: &[ReplicaSetMember]| -> String {
            let words: Vec<String> = members
                .iter()
                .map(|member| format!("{}{}", member.name, if member.votes > 0 { '+' } else { '-' }))
                .collect();
            words.join(" ")
        };
        wait_until(expected, async || {
            let members = self.members().await;
            let primaries = members.iter().filter(|member| member.state == "primary").count();
            let secondaries = members
                .iter()
                .filter(|member| member.state == "secondary")
                .count();
            votes(&members) == expected
                && primaries == 1
                && primaries + secondaries == members.len()
                && self.record("initiated").await.is_some()
        })
        .await;
    }

    pub(crate) async fn primary(&self) -> String {
        self.wait_for_member("primary", |member| member.state == "primary")
            .await
    }

    /// Waits for a member that meets the condition, and returns its name.
    pub(crate) async fn wait_for_member(
        &self,
        what: &str,
        condition: impl Fn(&ReplicaSetMember) -> bool,
    ) -> String {
        retry_until_ok(what, async || {
            let members = self.members().await;
            let found = members.iter().find(|member| condition(member));
            Ok(found.ok_or_else(|| format!("{members:?}"))?.name.clone())
        })
        .await
    }

    /// A client as a judicator uses it: with the login, and connected to the primary wherever it is.
    pub(crate) async fn database(&self) -> Database {
        let hosts = self
            .ports
            .keys()
            .map(|name| ServerAddress::parse(self.address(name)).unwrap());
        let mut options = ClientOptions::builder()
            .hosts(hosts.collect::<Vec<_>>())
            .repl_set_name("conclave".to_string())
            .write_concern(WriteConcern::majority())
            .build();
        options.credential = self.secret.as_deref().map(|secret| {
            let (user, password) = login_from_secret(secret);
            Credential::builder().username(user).password(password).build()
        });
        mongodb::Client::with_options(options).unwrap().database("tests")
    }

    /// The value of a key below `/conclave/mongodb/` in etcd.
    pub(crate) async fn record(&self, key: &str) -> Option<String> {
        values(&self.read(key, None).await).into_iter().next()
    }

    pub(crate) async fn records_with_prefix(&self, key: &str) -> Vec<String> {
        values(&self.read(key, Some(GetOptions::new().with_prefix())).await)
    }

    async fn read(&self, key: &str, options: Option<GetOptions>) -> GetResponse {
        let key = format!("/conclave/mongodb/{key}");
        retry_until_ok(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.get(key.as_str(), options.clone()).await?)
        })
        .await
    }

    pub(crate) async fn write_record(&self, key: &str, value: &str) {
        let key = format!("/conclave/mongodb/{key}");
        retry_until_ok(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.put(key.as_str(), value, None).await?)
        })
        .await;
    }

    pub(crate) async fn wait_until_registered(&self, name: &str) {
        let key = format!("members/{name}");
        wait_until(&key, async || self.record(&key).await.is_some()).await;
    }

    /// Does what `leave` and `remove_member` do, without their checks.
    pub(crate) async fn deregister(&self, name: &str) {
        let key = format!("members/{name}");
        let member: serde_json::Value = serde_json::from_str(&self.record(&key).await.unwrap()).unwrap();
        let left = serde_json::json!({ "name": name, "address": member["address"], "gone": false });
        let incarnation = member["incarnation"].as_str().unwrap();
        self.write_record(&format!("left/{incarnation}"), &left.to_string())
            .await;
        let key = format!("/conclave/mongodb/{key}");
        retry_until_ok(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.delete(key.as_str(), None).await?)
        })
        .await;
    }

    /// Writes an executable script.
    pub(crate) fn write_script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// Retries temporary errors, as `run` does.
pub(crate) async fn next_action_of(daemon: &mut MongodDaemon) -> MemberAction {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match daemon.next_action().await {
            Err(MongodbDaemonError::Etcd(_) | MongodbDaemonError::Mongod(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            action => return action.unwrap(),
        }
    }
}

/// The same for the execution of an action: the next observation shows its effect.
pub(crate) async fn execute(daemon: &mut MongodDaemon, action: &MemberAction) -> RecheckDelay {
    match daemon.execute(action).await {
        Err(MongodbDaemonError::Etcd(_) | MongodbDaemonError::Mongod(_)) => RecheckDelay::Short,
        delay => delay.unwrap(),
    }
}

fn values(answer: &GetResponse) -> Vec<String> {
    let value = |kv: &etcd_client::KeyValue| kv.value_str().unwrap().to_string();
    answer.kvs().iter().map(value).collect()
}

/// Waits for the condition; the deadline only bounds the wait.
pub(crate) async fn wait_until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !met().await {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Repeats a request until it succeeds.
async fn retry_until_ok<T>(what: &str, ask: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(
                Instant::now() < deadline,
                "not within {DEADLINE:?}: {what}: {error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A port below the kernel's range for outgoing connections, and from a range of its own for each process.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let offset = u16::try_from(std::process::id() % 1200).unwrap() * 10;
    loop {
        let port = 20_000 + (offset + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn start_etcd(folder: &Path, client: u16, peer: u16) -> Child {
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    Command::new("etcd")
        .args(["--name", "one", "--logger", "zap", "--log-level", "error"])
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("one={peer}")])
        .stdin(Stdio::null())
        .spawn()
        .expect("etcd is needed on the PATH (Debian: etcd-server)")
}

fn mongod() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .map(|cache| cache.join("conclave/mongodb/bin/mongod"));
    let named = std::env::var_os("CONCLAVE_MONGOD").map(PathBuf::from);
    named
        .or(cache.filter(|path| path.exists()))
        .unwrap_or_else(|| PathBuf::from("mongod"))
}
