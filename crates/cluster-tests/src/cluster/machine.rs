//! One node of a cluster: a host, a data folder, and boot with all that it keeps alive there.
#![allow(clippy::print_stdout, reason = "a failed test shows the logs of its nodes")]

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Service, Status};
use crate::{Cli, FakeClock, Host, Node, Remains, Said, await_that, conclave};

/// Generous: servers are started, and other tests run beside.
const SERVES: Duration = Duration::from_secs(90);
/// Lines of each log that are shown when a test fails.
const SHOWN: usize = 30;

/// Everything of it is killed when it is dropped.
pub struct Machine {
    name: String,
    boot: Option<Node>,
    folder: PathBuf,
    resolver: Option<PathBuf>,
    clock: Option<FakeClock>,
    /// What boot is started with, every time.
    args: Vec<OsString>,
    host: Host,
}

/// One of the processes that make up a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    Boot,
    /// One that boot keeps alive.
    Service(&'static str),
    /// The program that such a one wraps.
    Server(&'static str),
}

impl Process {
    /// Those of a judicator.
    pub const OF_JUDICATOR: [Process; 6] = [
        Process::Service("judicator"),
        Process::Server("mongodb"),
        Process::Service("mongodb"),
        Process::Server("etcd"),
        Process::Service("etcd"),
        Process::Boot,
    ];
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Boot => f.write_str("boot"),
            Process::Service(name) => write!(f, "the service {name}"),
            Process::Server(name) => write!(f, "the server of {name}"),
        }
    }
}

impl Machine {
    /// Nothing is started yet. All of its files go below the folder.
    pub(super) fn new(name: &str, host: Host, folder: &Path, resolver: Option<PathBuf>) -> Machine {
        Machine {
            name: name.to_string(),
            boot: None,
            folder: folder.to_path_buf(),
            resolver,
            clock: None,
            args: Vec::new(),
            host,
        }
    }

    /// What boot is started with; the data folder is added.
    pub fn set_args<A: Into<OsString>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.args = args.into_iter().map(Into::into).collect();
    }

    pub fn add_args(&mut self, more: &[&str]) {
        self.args.extend(more.iter().map(OsString::from));
    }

    /// Once it is started, all of its processes read a clock of its own.
    pub(super) fn with_clock(mut self) -> Machine {
        let file = self.folder.join(format!("{}.clock", self.name));
        self.clock = Some(FakeClock::new(&file));
        self
    }

    pub fn clock(&self) -> &FakeClock {
        self.clock.as_ref().expect("clocks, which are asked for first")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self) -> &str {
        self.host.address()
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Where others reach one of its ports.
    pub fn at(&self, port: u16) -> String {
        format!("{}:{port}", self.address())
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    pub fn remains(&self) -> Remains {
        Remains::of(&self.data())
    }

    /// Starts boot, and does not wait for anything. The same again for the next life of the node.
    pub fn start(&mut self) {
        assert!(self.boot.is_none(), "{} has a boot", self.name);
        let command = self.command();
        let boot = Node::spawn_logged(&self.name, &self.folder, command);
        self.boot = Some(boot.expect("boot starts"));
    }

    fn command(&self) -> Command {
        let mut command = self.host.command(self.resolver.as_deref(), &conclave());
        command.args(&self.args).arg("--data").arg(self.data());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CONCLAVE_") {
                command.env_remove(name);
            }
        }
        if let Some(clock) = &self.clock {
            clock.give_to(&mut command);
        }
        command
    }

    /// Waits until all of its services serve.
    pub async fn ready(&self) -> Status {
        let what = format!("{} to be ready", self.name);
        await_that(&what, SERVES, async || {
            self.status().await.filter(Status::is_ready)
        })
        .await
    }

    /// `None` while there is nothing to tell.
    pub async fn status(&self) -> Option<Status> {
        let said = self.conclave(&["status", "--json"]).await;
        serde_json::from_slice(&said.stdout)
            .ok()
            .map(|status| Status::parse(&status))
    }

    /// Waits until a service is as it is wanted.
    pub async fn service(&self, name: &str, what: &str, is_so: impl Fn(&Service) -> bool) -> Service {
        let what = format!("{name} of {} to be {what}", self.name);
        await_that(&what, SERVES, async || {
            let status = self.status().await?;
            status.get(name).filter(|service| is_so(service)).cloned()
        })
        .await
    }

    /// A verb on this node, given its data folder.
    pub async fn conclave(&self, words: &[&str]) -> Said {
        let data = self.data();
        let data = data.to_str().expect("a path in UTF-8");
        let mut command = self.host.command(self.resolver.as_deref(), &conclave());
        command.args(words).args(["--data", data]);
        let mut command = tokio::process::Command::from(command);
        Cli::prepare(&mut command);
        Said::of(command.spawn().expect("conclave starts")).await
    }

    pub async fn pid(&self, process: Process) -> i32 {
        let (name, pid): (_, fn(&Service) -> Option<i32>) = match process {
            Process::Boot => return self.boot().pid(),
            Process::Service(name) => (name, |service| service.pid),
            Process::Server(name) => (name, |service| service.server),
        };
        let found = self.service(name, "running", |service| pid(service).is_some());
        pid(&found.await).expect("a pid")
    }

    /// Waits until another process has taken the place of one that was killed.
    pub async fn replaced(&self, process: Process, killed: i32) {
        let what = format!("another {process} of {}", self.name);
        await_that(&what, SERVES, async || {
            (self.pid(process).await != killed).then_some(())
        })
        .await;
        self.ready().await;
    }

    /// Sends a signal, and says to which process.
    pub async fn signal(&mut self, process: Process, signal: Signal) -> i32 {
        let pid = self.pid(process).await;
        let sent = kill(Pid::from_raw(pid), signal);
        sent.unwrap_or_else(|error| panic!("{signal} to {process} of {}: {error}", self.name));
        if process == Process::Boot && signal == Signal::SIGKILL {
            self.boot = None;
        }
        pid
    }

    pub fn boot(&self) -> &Node {
        let boot = self.boot.as_ref();
        boot.unwrap_or_else(|| panic!("{} has no boot", self.name))
    }

    /// Boot has to end by itself: what it logged until then, and whether it ended well.
    pub async fn ended(&mut self) -> (bool, String) {
        let mut boot = self.boot.take().expect("a boot");
        let ended = boot.ended(SERVES).await;
        (ended.success(), boot.log())
    }

    /// Starts boot once more beside the one that runs; it has to end by itself, well or not, with these words.
    pub async fn second_boot(&self) -> (bool, String) {
        let name = format!("{}-second", self.name);
        let mut boot = Node::spawn_logged(&name, &self.folder, self.command()).expect("boot starts");
        let ended = boot.ended(SERVES).await;
        (ended.success(), boot.log())
    }

    /// Command lines of what runs here with these words in it.
    pub fn running(&self, words: &[&str]) -> Vec<String> {
        let lines = self.host.processes().into_iter().map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        });
        let words = words.join(" ");
        lines.filter(|line| line.contains(&words)).collect()
    }

    /// What boot and, where it was asked to show them, its services have said at the terminal.
    pub fn shown(&self) -> String {
        let path = self.folder.join(format!("{}.log", self.name));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// `conclave stop`; nothing may be left of it.
    pub async fn stop(&mut self, more: &[&str]) {
        let said = self.conclave(&[&["stop"], more].concat()).await;
        assert_eq!(said.code, 0, "{said:?}");
        let (well, log) = self.ended().await;
        assert!(well, "{} did not end well:\n{log}", self.name);
        self.nobody().await;
    }

    /// Waits until nothing runs on the host.
    pub async fn nobody(&self) {
        let what = format!("nothing to run at {}", self.name);
        await_that(&what, SERVES, async || {
            self.host.processes().is_empty().then_some(())
        })
        .await;
    }

    /// As when somebody pulls the plug.
    pub fn kill_all(&mut self) {
        self.host.kill_all();
        self.boot = None;
    }

    /// As when the disk is lost too.
    pub fn destroy(&mut self) {
        self.kill_all();
        fs::remove_dir_all(self.data()).expect("a data folder");
    }

    /// All that its services have logged.
    pub fn log(&self, service: &str) -> String {
        let path = self.data().join("log").join(format!("{service}.log"));
        fs::read_to_string(path).unwrap_or_default()
    }

    fn show_logs(&self) {
        for entry in fs::read_dir(self.data().join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            let log = fs::read(&path).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<_> = log.lines().rev().take(SHOWN).collect();
            println!("---- the end of {}", path.display());
            for line in lines.iter().rev() {
                // Servers write lines of any length.
                println!("{}", line.chars().take(400).collect::<String>());
            }
        }
        let status = fs::read_to_string(self.data().join("run/status.json")).unwrap_or_default();
        println!("---- the status of {}\n{status}", self.name);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        self.kill_all();
    }
}
