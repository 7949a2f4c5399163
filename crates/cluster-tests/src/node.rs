//! One process of the system.
#![allow(clippy::print_stdout, reason = "a failed test shows the logs of its nodes")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::await_that;

/// The binary under test, built from this tree.
pub fn conclave() -> PathBuf {
    let tests = std::env::current_exe().unwrap_or_default();
    // target/PROFILE/deps/TEST: the binary lies two folders up.
    let binary = tests
        .ancestors()
        .nth(2)
        .unwrap_or(Path::new("."))
        .join("conclave");
    assert!(
        binary.exists(),
        "{} is missing: build it with `cargo build -p conclave`",
        binary.display()
    );
    binary
}

/// Killed when dropped; its log is shown when the test fails.
pub struct Node {
    name: String,
    child: Child,
    line: String,
    log: PathBuf,
}

impl Node {
    /// Starts `conclave ARGS...` and waits for the line that says that it serves.
    pub fn start(name: &str, folder: &Path, args: &[&str]) -> Result<Node> {
        let mut command = Command::new(conclave());
        command.args(args);
        Node::launch(name, folder, command)
    }

    /// The same for a command that becomes the node.
    pub fn launch(name: &str, folder: &Path, command: Command) -> Result<Node> {
        let mut node = Node::spawn(name, folder, command)?;
        let stdout = node.child.stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut node.line)?;
        if !node.line.contains("is serving") {
            let status = node.child.wait()?;
            bail!("{name} did not serve ({status}):\n{}", node.log());
        }
        Ok(node)
    }

    /// Does not wait until it serves.
    pub fn spawn(name: &str, folder: &Path, mut command: Command) -> Result<Node> {
        command.stdout(Stdio::piped());
        Node::begin(name, folder, command)
    }

    /// The same, and all that it prints goes to its log.
    pub fn spawn_logged(name: &str, folder: &Path, mut command: Command) -> Result<Node> {
        command.stdout(open(&log_of(name, folder))?);
        Node::begin(name, folder, command)
    }

    fn begin(name: &str, folder: &Path, mut command: Command) -> Result<Node> {
        let log = log_of(name, folder);
        let usual = [
            ("CONCLAVE_NODE_LOG", "info"),
            // Tasks and tests leave each other files outside of any cell. What cells do is tested where they are asked for.
            ("CONCLAVE_EXECUTOR_ISOLATION", "none"),
        ];
        for (variable, value) in usual {
            // A test may have set or removed it.
            if command.get_envs().all(|(known, _)| known != variable) {
                command.env(variable, value);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stderr(open(&log)?)
            .spawn()
            .context("could not start the conclave binary")?;
        Ok(Node {
            name: name.to_string(),
            child,
            line: String::new(),
            log,
        })
    }

    /// The address that the node serves for this scheme, `http` or `rpc`.
    pub fn address(&self, scheme: &str) -> String {
        let after = self
            .line
            .split_once(&format!(" {scheme}://"))
            .map(|(_, rest)| rest);
        let address = after.and_then(|rest| rest.split(',').next());
        address
            .unwrap_or_else(|| panic!("no {scheme} address in {:?}", self.line))
            .to_string()
    }

    /// The line that says that it serves.
    pub fn line(&self) -> &str {
        &self.line
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal)
            .unwrap_or_else(|error| panic!("{signal} to {}: {error}", self.name));
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        await_that(&what, within, async || self.child.try_wait().expect("wait")).await
    }

    /// What it and its earlier lives under the same name have logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Whether a process is there and has not ended.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn log_of(name: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn open(log: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).open(log)
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().rev().take(60).collect();
            println!("---- the end of the log of {}", self.name);
            lines.iter().rev().for_each(|line| println!("{line}"));
        }
    }
}
