//! A replica set of real mongod processes for tests. It listens on a loopback address that no other test uses, and is
//! killed when it is dropped.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, Credential, ServerAddress};
use mongodb::{Client, error};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::StoreError;
use store::contract::{MAX_ATTEMPTS, SCAN_LIMIT};
use store::mongo::{MongoCredentials, MongoStore, MongoStoreOptions};
use tempfile::TempDir;
use uuid::Uuid;

const REPLICA_SET_NAME: &str = "test";

const UNAUTHORIZED: i32 = 13;
const ALREADY_INITIALIZED: i32 = 23;
const USER_EXISTS: i32 = 51003;

/// The longest wait for anything that has no time limit of its own.
const DEADLINE: Duration = Duration::from_secs(120);

/// A MongoDB replica set that a test runs, with its data in a temporary folder.
pub(crate) struct TestReplicaSet {
    folder: TempDir,
    members: Vec<MongodProcess>,
    authentication: TestAuthentication,
}

/// Whether clients of a [`TestReplicaSet`] must authenticate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestAuthentication {
    Disabled,
    Required,
}

/// The mongod process of one member of a [`TestReplicaSet`].
struct MongodProcess {
    port: u16,
    process: Child,
}

impl TestReplicaSet {
    pub(crate) async fn start(members: usize, authentication: TestAuthentication) -> TestReplicaSet {
        let folder = TempDir::new().unwrap();
        let key_file = folder.path().join("key");
        std::fs::write(&key_file, "0123456789abcdef0123456789abcdef").unwrap();
        std::fs::set_permissions(&key_file, PermissionsExt::from_mode(0o600)).unwrap();
        let mut replica_set = TestReplicaSet {
            folder,
            members: vec![],
            authentication,
        };
        for index in 0..members {
            let port = free_port();
            let process = replica_set.spawn(index, port);
            replica_set.members.push(MongodProcess { port, process });
        }
        replica_set.initiate().await;
        replica_set
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| address(member.port)).collect()
    }

    pub(crate) fn credentials(&self) -> Option<MongoCredentials> {
        (self.authentication == TestAuthentication::Required).then(|| MongoCredentials {
            user: "conclave".into(),
            password: "secret of the test".into(),
        })
    }

    /// The options of a store in this database.
    pub(crate) fn options(&self, database: &str) -> MongoStoreOptions {
        MongoStoreOptions {
            addresses: self.addresses(),
            replica_set: REPLICA_SET_NAME.into(),
            database: database.into(),
            credentials: self.credentials(),
            max_attempts: MAX_ATTEMPTS,
            search_scan_limit: SCAN_LIMIT,
            incoming_folder: self.folder.path().join(format!("incoming-{}", Uuid::now_v7())),
        }
    }

    pub(crate) async fn open(&self, database: &str) -> MongoStore {
        try_open(self.options(database)).await.unwrap()
    }

    /// A client for access to the database without a store.
    pub(crate) fn client(&self) -> Client {
        let mut options = client_options(&self.addresses());
        options.repl_set_name = Some(REPLICA_SET_NAME.into());
        options.credential = self.credentials().map(|login| {
            Credential::builder()
                .username(login.user)
                .password(login.password)
                .source("admin".to_string())
                .build()
        });
        Client::with_options(options).unwrap()
    }

    /// The index of the member that is primary now.
    pub(crate) async fn primary(&self) -> usize {
        let started = Instant::now();
        loop {
            for (index, member) in self.members.iter().enumerate() {
                let hello = self.run_admin_command(member.port, doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return index;
                }
            }
            assert!(started.elapsed() < DEADLINE, "no primary\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until every member is the primary or replicates from another one, so that the replica set survives the
    /// loss of any of them. A member that has not chosen its sync source yet might choose one that hangs, and would
    /// wait 20 s.
    pub(crate) async fn wait_until_all_members_replicate(&self) {
        let started = Instant::now();
        for member in &self.members {
            while !self
                .run_admin_command(member.port, doc! { "replSetGetStatus": 1 })
                .await
                .is_ok_and(|status| is_replicating(&status))
            {
                assert!(
                    started.elapsed() < DEADLINE,
                    "a member does not replicate\n{}",
                    self.logs()
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    pub(crate) fn kill(&mut self, member: usize) {
        let process = &mut self.members[member].process;
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub(crate) fn restart(&mut self, member: usize) {
        let port = self.members[member].port;
        self.members[member].process = self.spawn(member, port);
    }

    /// Stops a member with SIGSTOP: its connections stay open, and it does not reply.
    pub(crate) fn pause(&self, member: usize) {
        self.signal(member, Signal::SIGSTOP);
    }

    pub(crate) fn resume(&self, member: usize) {
        self.signal(member, Signal::SIGCONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        let pid = self.members[member].process.id();
        kill(Pid::from_raw(pid as i32), signal).unwrap();
    }

    fn spawn(&self, index: usize, port: u16) -> Child {
        let data = self.folder.path().join(format!("member-{index}"));
        std::fs::create_dir_all(&data).unwrap();
        let mut command = Command::new(mongod());
        command
            .args(["--replSet", REPLICA_SET_NAME, "--bind_ip", &host()])
            .args(["--wiredTigerCacheSizeGB", "0.25"])
            .args([
                "--oplogSize",
                "200",
                "--nounixsocket",
                "--setParameter",
                "diagnosticDataCollectionEnabled=false",
            ])
            // Enables fail points.
            .args(["--setParameter", "enableTestCommands=1"])
            .args(["--port", &port.to_string()])
            .arg("--dbpath")
            .arg(&data)
            .arg("--logpath")
            .arg(data.join("log"))
            .arg("--logappend");
        // The same as in a cluster: a member whose sync source has stopped soon chooses another.
        command
            .args(["--setParameter", "oplogNetworkTimeoutBufferSeconds=3"])
            .args(["--setParameter", "oplogFetcherSteadyStateMaxFetcherRestarts=0"]);
        if self.authentication == TestAuthentication::Required {
            command.arg("--keyFile").arg(self.folder.path().join("key"));
        }
        command.stdout(Stdio::null()).spawn().unwrap()
    }

    async fn initiate(&self) {
        let members: Vec<Document> = (0..)
            .zip(&self.members)
            .map(|(id, member)| doc! { "_id": id, "host": address(member.port) })
            .collect();
        let config = doc! {
            "_id": REPLICA_SET_NAME,
            "members": members,
            // The same as in a cluster.
            "settings": {
                "electionTimeoutMillis": 2000,
                "heartbeatIntervalMillis": 200,
                "heartbeatTimeoutSecs": 2,
                "catchUpTimeoutMillis": 1000,
            },
        };
        let first = self.members[0].port;
        self.run_until_done(first, doc! { "replSetInitiate": config }, &[ALREADY_INITIALIZED])
            .await;
        let primary = self.primary().await;
        if let Some(login) = self.credentials() {
            let user = doc! { "createUser": login.user, "pwd": login.password, "roles": ["root"] };
            // Once the user exists, a command without authentication is refused.
            let done = [USER_EXISTS, UNAUTHORIZED];
            self.run_until_done(self.members[primary].port, user, &done).await;
        }
    }

    /// Repeats a command until it succeeds, because a mongod that was just started does not reply yet. The error codes
    /// `done_before` mean that an earlier try succeeded and its reply was lost.
    async fn run_until_done(&self, port: u16, command: Document, done_before: &[i32]) {
        let started = Instant::now();
        while let Err(error) = self.run_admin_command(port, command.clone()).await {
            if code(&error).is_some_and(|code| done_before.contains(&code)) {
                return;
            }
            assert!(started.elapsed() < DEADLINE, "{error}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs a command without authentication, which mongod permits from the same machine until there is a user.
    async fn run_admin_command(&self, port: u16, command: Document) -> error::Result<Document> {
        let mut options = client_options(&[address(port)]);
        options.direct_connection = Some(true);
        // All callers retry, so the timeouts are short.
        options.server_selection_timeout = Some(Duration::from_secs(2));
        options.connect_timeout = Some(Duration::from_secs(2));
        let client = Client::with_options(options)?;
        let reply = tokio::spawn(async move {
            let answer = client.database("admin").run_command(command).await;
            client.shutdown().immediate(true).await;
            answer
        });
        match tokio::time::timeout(Duration::from_secs(5), reply).await {
            Ok(answer) => answer.unwrap(),
            Err(_) => Err(error::Error::custom("no reply")),
        }
    }

    fn logs(&self) -> String {
        let log = |index: usize| {
            let path = self.folder.path().join(format!("member-{index}")).join("log");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<_> = text.lines().rev().take(20).collect();
            format!("member {index}:\n{}\n", lines.join("\n"))
        };
        (0..self.members.len()).map(log).collect()
    }
}

impl Drop for TestReplicaSet {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The process may have been killed before.
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

/// Opens a store as a judicator does: it retries while the replica set is unreachable, and only then.
pub(crate) async fn try_open(options: MongoStoreOptions) -> Result<MongoStore, StoreError> {
    let started = Instant::now();
    loop {
        match MongoStore::open(options.clone()).await {
            Err(
                StoreError::Unreachable { .. } | StoreError::NoPrimary { .. } | StoreError::Timeout { .. },
            ) if started.elapsed() < DEADLINE => {}
            tried => return tried,
        }
    }
}

fn is_replicating(status: &Document) -> bool {
    const PRIMARY: i32 = 1;
    let copies = status
        .get_str("syncSourceHost")
        .is_ok_and(|source| !source.is_empty());
    copies || status.get_i32("myState").is_ok_and(|state| state == PRIMARY)
}

fn address(port: u16) -> String {
    format!("{}:{port}", host())
}

/// Each test process uses a loopback address of its own, so that no other test takes its ports.
fn host() -> String {
    let pid = std::process::id();
    format!(
        "127.{}.{}.{}",
        1 + pid / 62_500 % 250,
        1 + pid / 250 % 250,
        1 + pid % 250
    )
}

fn client_options(addresses: &[String]) -> ClientOptions {
    let hosts: Vec<_> = addresses
        .iter()
        .map(|text| ServerAddress::parse(text).unwrap())
        .collect();
    ClientOptions::builder().hosts(hosts).build()
}

fn code(error: &error::Error) -> Option<i32> {
    match &*error.kind {
        error::ErrorKind::Command(refusal) => Some(refusal.code),
        _ => None,
    }
}

fn free_port() -> u16 {
    TcpListener::bind((host(), 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn mongod() -> PathBuf {
    if let Some(named) = std::env::var_os("CONCLAVE_MONGOD") {
        return named.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cached = cache
        .or(home)
        .map(|cache| cache.join("conclave/mongodb/bin/mongod"));
    if let Some(cached) = cached.filter(|path| path.exists()) {
        return cached;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("mongod"))
        .find(|program| program.exists())
        .expect("these tests need mongod 6.0: set CONCLAVE_MONGOD to its path, or run scripts/setup")
}
