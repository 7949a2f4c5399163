//! A real replica set: mongod processes on free ports of an address that no other test has, in a folder of their own,
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
use store::contract::{LOSSES, WINDOW};
use store::mongo::{Login, MongoStore, Options};
use tempfile::TempDir;
use uuid::Uuid;

const NAME: &str = "test";

const UNAUTHORIZED: i32 = 13;
const ALREADY_INITIALIZED: i32 = 23;
const USER_EXISTS: i32 = 51003;

/// For everything that only has to happen some time.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Set {
    folder: TempDir,
    members: Vec<Member>,
    guard: Guard,
}

/// Whether it asks who one is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Open,
    Login,
}

struct Member {
    port: u16,
    process: Child,
}

impl Set {
    pub(crate) async fn start(members: usize, guard: Guard) -> Set {
        let folder = TempDir::new().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        let mut set = Set {
            folder,
            members: vec![],
            guard,
        };
        for index in 0..members {
            let port = free_port();
            let process = set.run(index, port);
            set.members.push(Member { port, process });
        }
        set.initiate().await;
        set
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| address(member.port)).collect()
    }

    pub(crate) fn login(&self) -> Option<Login> {
        (self.guard == Guard::Login).then(|| Login {
            user: "conclave".into(),
            password: "secret of the test".into(),
        })
    }

    /// For a store in this database.
    pub(crate) fn options(&self, database: &str) -> Options {
        Options {
            addresses: self.addresses(),
            set: NAME.into(),
            database: database.into(),
            login: self.login(),
            max_attempts: LOSSES,
            search_window: WINDOW,
            incoming: self.folder.path().join(format!("incoming-{}", Uuid::now_v7())),
        }
    }

    pub(crate) async fn open(&self, database: &str) -> MongoStore {
        try_open(self.options(database)).await.unwrap()
    }

    /// A client of its own, for what no store would do.
    pub(crate) fn client(&self) -> Client {
        let mut options = client_options(&self.addresses());
        options.repl_set_name = Some(NAME.into());
        options.credential = self.login().map(|login| {
            Credential::builder()
                .username(login.user)
                .password(login.password)
                .source("admin".to_string())
                .build()
        });
        Client::with_options(options).unwrap()
    }

    /// The one that is primary now, as a majority sees it.
    pub(crate) async fn primary(&self) -> usize {
        let begun = Instant::now();
        loop {
            for (index, member) in self.members.iter().enumerate() {
                let hello = self.ask(member.port, doc! { "hello": 1 }).await;
                if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                    return index;
                }
            }
            assert!(begun.elapsed() < DEADLINE, "no primary\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Until every member is the primary or copies from another, so that the set can do without any of them. One that
    /// is still choosing whom to copy from is not there yet: if it chooses one that hangs, it waits for it for 20 s.
    pub(crate) async fn until_whole(&self) {
        let begun = Instant::now();
        for member in &self.members {
            while !self
                .ask(member.port, doc! { "replSetGetStatus": 1 })
                .await
                .is_ok_and(|status| is_at_work(&status))
            {
                assert!(begun.elapsed() < DEADLINE, "a member is missing\n{}", self.logs());
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
        self.members[member].process = self.run(member, port);
    }

    /// Stops it as a debugger would: its connections stay, and nothing answers.
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

    fn run(&self, index: usize, port: u16) -> Child {
        let data = self.folder.path().join(format!("member-{index}"));
        std::fs::create_dir_all(&data).unwrap();
        let mut command = Command::new(mongod());
        command
            .args(["--replSet", NAME, "--bind_ip", &host()])
            .args(["--wiredTigerCacheSizeGB", "0.25"])
            .args([
                "--oplogSize",
                "200",
                "--nounixsocket",
                "--setParameter",
                "diagnosticDataCollectionEnabled=false",
            ])
            // So that it can be told to refuse.
            .args(["--setParameter", "enableTestCommands=1"])
            .args(["--port", &port.to_string()])
            .arg("--dbpath")
            .arg(&data)
            .arg("--logpath")
            .arg(data.join("log"))
            .arg("--logappend");
        // As the daemon of a cluster has it: a member that copies from a stopped one soon looks for another.
        command
            .args(["--setParameter", "oplogNetworkTimeoutBufferSeconds=3"])
            .args(["--setParameter", "oplogFetcherSteadyStateMaxFetcherRestarts=0"]);
        if self.guard == Guard::Login {
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
            "_id": NAME,
            "members": members,
            // This, too, is as the daemon has it.
            "settings": {
                "electionTimeoutMillis": 2000,
                "heartbeatIntervalMillis": 200,
                "heartbeatTimeoutSecs": 2,
                "catchUpTimeoutMillis": 1000,
            },
        };
        let first = self.members[0].port;
        self.until(first, doc! { "replSetInitiate": config }, &[ALREADY_INITIALIZED])
            .await;
        let primary = self.primary().await;
        if let Some(login) = self.login() {
            let user = doc! { "createUser": login.user, "pwd": login.password, "roles": ["root"] };
            // Without a login nobody may do anything once there is a user.
            let done = [USER_EXISTS, UNAUTHORIZED];
            self.until(self.members[primary].port, user, &done).await;
        }
    }

    /// Until it is done: a mongod that has just been started answers later. It may have been done by a question whose
    /// answer came too late: these codes say so.
    async fn until(&self, port: u16, command: Document, done_before: &[i32]) {
        let begun = Instant::now();
        while let Err(error) = self.ask(port, command.clone()).await {
            if code(&error).is_some_and(|code| done_before.contains(&code)) {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "{error}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Without a login: before there is a user, that is allowed from the same machine.
    async fn ask(&self, port: u16, command: Document) -> error::Result<Document> {
        let mut options = client_options(&[address(port)]);
        options.direct_connection = Some(true);
        // Whoever asks here asks again.
        options.server_selection_timeout = Some(Duration::from_secs(2));
        options.connect_timeout = Some(Duration::from_secs(2));
        let client = Client::with_options(options)?;
        let asked = tokio::spawn(async move {
            let answer = client.database("admin").run_command(command).await;
            client.shutdown().immediate(true).await;
            answer
        });
        match tokio::time::timeout(Duration::from_secs(5), asked).await {
            Ok(answer) => answer.unwrap(),
            Err(_) => Err(error::Error::custom("no answer")),
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

impl Drop for Set {
    fn drop(&mut self) {
        for member in &mut self.members {
            // It may have been killed before.
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

/// As a judicator does it: where nobody answered in time it is tried again. Nothing else is.
pub(crate) async fn try_open(options: Options) -> Result<MongoStore, StoreError> {
    let begun = Instant::now();
    loop {
        match MongoStore::open(options.clone()).await {
            Err(
                StoreError::Unreachable { .. } | StoreError::NoPrimary { .. } | StoreError::Silent { .. },
            ) if begun.elapsed() < DEADLINE => {}
            tried => return tried,
        }
    }
}

fn is_at_work(status: &Document) -> bool {
    const PRIMARY: i32 = 1;
    let copies = status
        .get_str("syncSourceHost")
        .is_ok_and(|source| !source.is_empty());
    copies || status.get_i32("myState").is_ok_and(|state| state == PRIMARY)
}

fn address(port: u16) -> String {
    format!("{}:{port}", host())
}

/// Each test process has a loopback address of its own, where nobody else takes ports.
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
        .expect("these tests need mongod 6.0: name it in CONCLAVE_MONGOD, or run scripts/setup")
}
