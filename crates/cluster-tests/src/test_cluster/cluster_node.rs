//! One node of a cluster: a virtual host, a data folder, and boot with its services.
#![allow(clippy::print_stdout, reason = "a failed test shows the logs of its nodes")]

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{NodeStatusJson, ServiceStatusJson};
use crate::{
    CommandOutput, ConclaveCli, FakeClock, LanHost, NodeProcess, TaskLeftovers, conclave, wait_until,
};

/// Long, because servers start and other tests run at the same time.
const SERVES: Duration = Duration::from_secs(90);
/// How many lines of each log are printed when a test fails.
const SHOWN: usize = 30;

/// A node of a cluster under test: its virtual host, its data folder, and boot with its services. All its processes are
/// killed when it is dropped.
pub struct ClusterNode {
    name: String,
    boot: Option<NodeProcess>,
    folder: PathBuf,
    resolver: Option<PathBuf>,
    clock: Option<FakeClock>,
    /// The binary under test, or one of another version.
    program: PathBuf,
    /// The arguments of boot, the same for every start.
    args: Vec<OsString>,
    host: LanHost,
}

/// One of the processes that make up a node of a cluster under test: boot, a service, or etcd or mongod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterProcess {
    Boot,
    /// A service that boot keeps alive.
    Service(&'static str),
    /// The etcd or mongod that a service wraps.
    Server(&'static str),
}

impl ClusterProcess {
    /// The processes of a judicator's node.
    pub const OF_JUDICATOR: [ClusterProcess; 6] = [
        ClusterProcess::Service("judicator"),
        ClusterProcess::Server("mongodb"),
        ClusterProcess::Service("mongodb"),
        ClusterProcess::Server("etcd"),
        ClusterProcess::Service("etcd"),
        ClusterProcess::Boot,
    ];
}

impl fmt::Display for ClusterProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterProcess::Boot => f.write_str("boot"),
            ClusterProcess::Service(name) => write!(f, "the service {name}"),
            ClusterProcess::Server(name) => write!(f, "the server of {name}"),
        }
    }
}

impl ClusterNode {
    /// Creates the node without starting it. Its files go below the folder.
    pub(super) fn new(name: &str, host: LanHost, folder: &Path, resolver: Option<PathBuf>) -> ClusterNode {
        ClusterNode {
            name: name.to_string(),
            boot: None,
            folder: folder.to_path_buf(),
            resolver,
            clock: None,
            program: conclave(),
            args: Vec::new(),
            host,
        }
    }

    /// Runs this binary from the next start on.
    pub fn set_program(&mut self, program: &Path) {
        self.program = program.to_path_buf();
    }

    /// Sets the arguments of boot; the data folder is added.
    pub fn set_args<A: Into<OsString>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.args = args.into_iter().map(Into::into).collect();
    }

    pub fn add_args(&mut self, more: &[&str]) {
        self.args.extend(more.iter().map(OsString::from));
    }

    /// Gives the node's processes a wall clock that the test can set.
    pub(super) fn with_clock(mut self) -> ClusterNode {
        let file = self.folder.join(format!("{}.clock", self.name));
        self.clock = Some(FakeClock::new(&file));
        self
    }

    pub fn clock(&self) -> &FakeClock {
        self.clock.as_ref().expect("with_clocks was called")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self) -> &str {
        self.host.address()
    }

    pub fn host(&self) -> &LanHost {
        &self.host
    }

    /// The address of one of its ports.
    pub fn address_of(&self, port: u16) -> String {
        format!("{}:{port}", self.address())
    }

    pub fn data(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    pub fn leftovers(&self) -> TaskLeftovers {
        TaskLeftovers::of(&self.data())
    }

    /// Starts boot, without waiting until it is ready. May be called again after the node has ended.
    pub fn start(&mut self) {
        assert!(self.boot.is_none(), "{} has a boot", self.name);
        let command = self.command();
        let boot = NodeProcess::spawn_logged(&self.name, &self.folder, command);
        self.boot = Some(boot.expect("boot starts"));
    }

    fn command(&self) -> Command {
        let mut command = self.host.command(self.resolver.as_deref(), &self.program);
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

    /// Waits until all services are running.
    pub async fn wait_until_ready(&self) -> NodeStatusJson {
        let what = format!("{} to be ready", self.name);
        wait_until(&what, SERVES, async || {
            self.status().await.filter(NodeStatusJson::is_ready)
        })
        .await
    }

    /// `None` if boot does not run.
    pub async fn status(&self) -> Option<NodeStatusJson> {
        let said = self.conclave(&["status", "--json"]).await;
        serde_json::from_slice(&said.stdout)
            .ok()
            .map(|status| NodeStatusJson::parse(&status))
    }

    /// Waits until a service is in the wanted state.
    pub async fn service(
        &self,
        name: &str,
        what: &str,
        is_wanted: impl Fn(&ServiceStatusJson) -> bool,
    ) -> ServiceStatusJson {
        let what = format!("{name} of {} to be {what}", self.name);
        wait_until(&what, SERVES, async || {
            let status = self.status().await?;
            status.get(name).filter(|service| is_wanted(service)).cloned()
        })
        .await
    }

    /// Runs a `conclave` command on the node's host, with the node's data folder.
    pub async fn conclave(&self, words: &[&str]) -> CommandOutput {
        let data = self.data();
        let data = data.to_str().expect("a path in UTF-8");
        let mut command = self.host.command(self.resolver.as_deref(), &self.program);
        command.args(words).args(["--data", data]);
        let mut command = tokio::process::Command::from(command);
        ConclaveCli::prepare(&mut command);
        CommandOutput::of(command.spawn().expect("conclave starts")).await
    }

    pub async fn pid(&self, process: ClusterProcess) -> i32 {
        let (name, pid): (_, fn(&ServiceStatusJson) -> Option<i32>) = match process {
            ClusterProcess::Boot => return self.boot().pid(),
            ClusterProcess::Service(name) => (name, |service| service.pid),
            ClusterProcess::Server(name) => (name, |service| service.server),
        };
        let found = self.service(name, "running", |service| pid(service).is_some());
        pid(&found.await).expect("a pid")
    }

    /// Waits until boot has replaced a process that was killed.
    pub async fn wait_until_replaced(&self, process: ClusterProcess, killed: i32) {
        let what = format!("another {process} of {}", self.name);
        wait_until(&what, SERVES, async || {
            (self.pid(process).await != killed).then_some(())
        })
        .await;
        self.wait_until_ready().await;
    }

    /// Sends a signal to one of the node's processes, and returns its pid.
    pub async fn signal(&mut self, process: ClusterProcess, signal: Signal) -> i32 {
        let pid = self.pid(process).await;
        let sent = kill(Pid::from_raw(pid), signal);
        sent.unwrap_or_else(|error| panic!("{signal} to {process} of {}: {error}", self.name));
        if process == ClusterProcess::Boot && signal == Signal::SIGKILL {
            self.boot = None;
        }
        pid
    }

    pub fn boot(&self) -> &NodeProcess {
        let boot = self.boot.as_ref();
        boot.unwrap_or_else(|| panic!("{} has no boot", self.name))
    }

    /// Waits until boot has ended by itself: whether it succeeded, and its log.
    pub async fn wait_for_end(&mut self) -> (bool, String) {
        let mut boot = self.boot.take().expect("a boot");
        let wait_for_end = boot.wait_for_end(SERVES).await;
        (wait_for_end.success(), boot.log())
    }

    /// Starts a second boot for the same data folder and waits until it ends: whether it succeeded, and its log.
    pub async fn second_boot(&self) -> (bool, String) {
        let name = format!("{}-second", self.name);
        let mut boot = NodeProcess::spawn_logged(&name, &self.folder, self.command()).expect("boot starts");
        let wait_for_end = boot.wait_for_end(SERVES).await;
        (wait_for_end.success(), boot.log())
    }

    /// The command lines on this host that contain these words.
    pub fn running(&self, words: &[&str]) -> Vec<String> {
        let lines = self.host.processes().into_iter().map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        });
        let words = words.join(" ");
        lines.filter(|line| line.contains(&words)).collect()
    }

    /// What boot, and services that log to the terminal, have printed.
    pub fn terminal_output(&self) -> String {
        let path = self.folder.join(format!("{}.log", self.name));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Runs `conclave stop`, and asserts that no process is left.
    pub async fn stop(&mut self, more: &[&str]) {
        let said = self.conclave(&[&["stop"], more].concat()).await;
        assert_eq!(said.code, 0, "{said:?}");
        let (succeeded, log) = self.wait_for_end().await;
        assert!(succeeded, "{} did not end well:\n{log}", self.name);
        self.wait_until_no_process_runs().await;
    }

    /// Waits until no process runs on the host.
    pub async fn wait_until_no_process_runs(&self) {
        let what = format!("nothing to run at {}", self.name);
        wait_until(&what, SERVES, async || {
            self.host.processes().is_empty().then_some(())
        })
        .await;
    }

    /// Simulates a power failure.
    pub fn kill_all(&mut self) {
        self.host.kill_all();
        self.boot = None;
    }

    /// Simulates a power failure with loss of the disk.
    pub fn kill_and_delete_data(&mut self) {
        self.kill_all();
        fs::remove_dir_all(self.data()).expect("a data folder");
    }

    /// The log of one service.
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
                // Servers may write very long lines.
                println!("{}", line.chars().take(400).collect::<String>());
            }
        }
        let status = fs::read_to_string(self.data().join("run/status.json")).unwrap_or_default();
        println!("---- the status of {}\n{status}", self.name);
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        self.kill_all();
    }
}
