//! An etcd of its own for each test, and daemons in this process. All of it is gone when the test is, however it
//! ends.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use boot::Tether;
use daemons::mongodb::{MemberState, MongodbError, Node, Options, Pace, Step, login, run, states};
use etcd_client::{GetOptions, GetResponse};
use mongodb::Database;
use mongodb::options::{ClientOptions, Credential, ServerAddress, WriteConcern};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::Access;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const SECRET: &str = "a secret for tests only";
/// Far longer than anything here takes, also where many tests run at once.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Ground {
    pub(crate) access: Access,
    pub(crate) secret: Option<String>,
    folder: TempDir,
    ports: HashMap<String, u16>,
    daemons: HashMap<String, Daemon>,
    etcd: Child,
}

struct Daemon {
    stop: CancellationToken,
    life: JoinHandle<Result<(), MongodbError>>,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

impl Ground {
    pub(crate) async fn new(secret: Option<&str>) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let (client, peer) = (free_port(), free_port());
        let etcd = start_etcd(folder.path(), client, peer);
        let access = Access {
            endpoints: vec![format!("127.0.0.1:{client}")],
            login: None,
            tls: None,
            cluster: None,
        };
        let ground = Ground {
            access,
            secret: secret.map(str::to_string),
            folder,
            ports: HashMap::new(),
            daemons: HashMap::new(),
            etcd,
        };
        ground.record("x").await;
        ground
    }

    pub(crate) fn options(&mut self, name: &str) -> Options {
        let port = *self.ports.entry(name.to_string()).or_insert_with(free_port);
        let note = format!("echo $$ > '{}' && exec \"$@\"", self.pid_file(name).display());
        Options {
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
            leash: ["/bin/sh", "-c", &note].map(OsString::from).into(),
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

    pub(crate) fn start_with(&mut self, options: Options) {
        self.ports.insert(options.name.clone(), options.port);
        let stop = CancellationToken::new();
        let name = options.name.clone();
        let life = tokio::spawn(run(options, Tether::none(), stop.clone()));
        self.daemons.insert(name, Daemon { stop, life });
    }

    /// As boot does it.
    pub(crate) async fn stop(&mut self, name: &str) {
        let daemon = self.daemons.remove(name).unwrap();
        daemon.stop.cancel();
        daemon.life.await.unwrap().unwrap();
    }

    /// As a power failure does it.
    pub(crate) async fn crash(&mut self, name: &str) {
        let daemon = self.daemons.remove(name).unwrap();
        daemon.life.abort();
        let _ = daemon.life.await;
        self.until_port_is_free(name).await;
    }

    /// The same for one that was walked.
    pub(crate) async fn crash_node(&self, name: &str, node: Node) {
        drop(node);
        self.until_port_is_free(name).await;
    }

    /// A mongod that is killed takes a moment to be gone.
    async fn until_port_is_free(&self, name: &str) {
        let address = self.address(name);
        until("its port is free", async || TcpListener::bind(&address).is_ok()).await;
    }

    /// Stops its mongod as a debugger would: its connections stay, and nothing answers.
    pub(crate) fn halt(&self, name: &str) {
        let pid = std::fs::read_to_string(self.pid_file(name)).unwrap();
        let mongod = Pid::from_raw(pid.trim().parse().unwrap());
        kill(mongod, Signal::SIGSTOP).unwrap();
    }

    /// Written by the leash of its mongod.
    fn pid_file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pid"))
    }

    /// What a daemon that ends by itself says.
    pub(crate) async fn last_word(&mut self, name: &str) -> String {
        let life = self.daemons.remove(name).unwrap().life;
        let ended = tokio::time::timeout(DEADLINE, life).await;
        let ended = ended.expect("the daemon does not end").unwrap();
        ended.expect_err("the daemon ended well").to_string()
    }

    /// Returns when nothing of it runs any more. A test that fails does not get here: then all is killed.
    pub(crate) async fn end(mut self) {
        let names: Vec<String> = self.daemons.keys().cloned().collect();
        for name in names {
            self.crash(&name).await;
        }
    }

    /// Of a daemon that is to end by itself.
    pub(crate) async fn failure_of(&mut self, options: Options) -> String {
        let stop = CancellationToken::new();
        let life = run(options, Tether::none(), stop);
        match tokio::time::timeout(DEADLINE, life)
            .await
            .expect("the daemon does not end")
        {
            Ok(()) => panic!("the daemon ended well"),
            Err(error) => error.to_string(),
        }
    }

    /// Takes a node on, step by step, up to just before `last`.
    pub(crate) async fn walk_until(&mut self, name: &str, last: &Step) -> Node {
        let options = self.options(name);
        let mut node = Node::prepare(options, Tether::none()).await.unwrap();
        node.start().await.unwrap();
        let deadline = Instant::now() + DEADLINE;
        loop {
            assert!(Instant::now() < deadline, "never came to {last:?}");
            let step = step_of(&mut node).await;
            if step == *last {
                return node;
            }
            if act(&mut node, &step).await != Pace::Now {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    pub(crate) async fn states(&self) -> Vec<MemberState> {
        insist("the states", async || {
            Ok(states(&self.access, self.secret.as_deref()).await?)
        })
        .await
    }

    /// Waits until there is one confirmed set with a primary that all others follow, and who has a vote is as said:
    /// `a+ b+ c-`.
    pub(crate) async fn until_set_is(&self, expected: &str) {
        let told = |states: &[MemberState]| -> String {
            let words: Vec<String> = states
                .iter()
                .map(|member| format!("{}{}", member.name, if member.votes > 0 { '+' } else { '-' }))
                .collect();
            words.join(" ")
        };
        until(expected, async || {
            let states = self.states().await;
            let primaries = states.iter().filter(|member| member.state == "primary").count();
            let secondaries = states.iter().filter(|member| member.state == "secondary").count();
            told(&states) == expected
                && primaries == 1
                && primaries + secondaries == states.len()
                && self.record("initiated").await.is_some()
        })
        .await;
    }

    pub(crate) async fn primary(&self) -> String {
        self.member("primary", |member| member.state == "primary").await
    }

    /// Waits for one that is so, and tells its name.
    pub(crate) async fn member(&self, what: &str, is_so: impl Fn(&MemberState) -> bool) -> String {
        insist(what, async || {
            let states = self.states().await;
            let found = states.iter().find(|member| is_so(member));
            Ok(found.ok_or_else(|| format!("{states:?}"))?.name.clone())
        })
        .await
    }

    /// The set as a judicator sees it: logged in, with the primary wherever it is.
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
            let (user, password) = login(secret);
            Credential::builder().username(user).password(password).build()
        });
        mongodb::Client::with_options(options).unwrap().database("tests")
    }

    /// A value in etcd below `/conclave/mongodb/`.
    pub(crate) async fn record(&self, key: &str) -> Option<String> {
        values(&self.read(key, None).await).into_iter().next()
    }

    pub(crate) async fn records_below(&self, key: &str) -> Vec<String> {
        values(&self.read(key, Some(GetOptions::new().with_prefix())).await)
    }

    async fn read(&self, key: &str, options: Option<GetOptions>) -> GetResponse {
        let key = format!("/conclave/mongodb/{key}");
        insist(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.get(key.as_str(), options.clone()).await?)
        })
        .await
    }

    pub(crate) async fn write_record(&self, key: &str, value: &str) {
        let key = format!("/conclave/mongodb/{key}");
        insist(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.put(key.as_str(), value, None).await?)
        })
        .await;
    }

    pub(crate) async fn until_registered(&self, name: &str) {
        let key = format!("members/{name}");
        until(&key, async || self.record(&key).await.is_some()).await;
    }

    /// As `leave` and `remove` do it, whatever speaks against it.
    pub(crate) async fn deregister(&self, name: &str) {
        let key = format!("members/{name}");
        let member: serde_json::Value = serde_json::from_str(&self.record(&key).await.unwrap()).unwrap();
        let left = serde_json::json!({ "name": name, "address": member["address"], "gone": false });
        let incarnation = member["incarnation"].as_str().unwrap();
        self.write_record(&format!("left/{incarnation}"), &left.to_string())
            .await;
        let key = format!("/conclave/mongodb/{key}");
        insist(&key, async || {
            let mut client = self.access.connect().await?;
            Ok(client.delete(key.as_str(), None).await?)
        })
        .await;
    }

    /// A program of its own.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// As `run` has it: what went wrong only for the moment is tried again.
pub(crate) async fn step_of(node: &mut Node) -> Step {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match node.step().await {
            Err(MongodbError::Etcd(_) | MongodbError::Admin(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            step => return step.unwrap(),
        }
    }
}

/// The same for what is done: the next look finds out what came of it.
pub(crate) async fn act(node: &mut Node, step: &Step) -> Pace {
    match node.act(step).await {
        Err(MongodbError::Etcd(_) | MongodbError::Admin(_)) => Pace::Soon,
        done => done.unwrap(),
    }
}

fn values(answer: &GetResponse) -> Vec<String> {
    let value = |kv: &etcd_client::KeyValue| kv.value_str().unwrap().to_string();
    answer.kvs().iter().map(value).collect()
}

/// A condition is awaited, never a time; the deadline only says when to give up.
pub(crate) async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !met().await {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks until there is an answer.
async fn insist<T>(what: &str, ask: impl AsyncFn() -> Result<T, Box<dyn Error>>) -> T {
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

/// Below the range from which the kernel takes ports for outgoing connections, and apart for each process.
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
