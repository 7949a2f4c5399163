//! Starts and stops one `conclave` process.
#![allow(clippy::print_stdout, reason = "a failed test shows the logs of its nodes")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait_until;

/// The binary under test, built from this tree.
pub fn conclave() -> PathBuf {
    let tests = std::env::current_exe().unwrap_or_default();
    // The test is target/PROFILE/deps/TEST, the binary is target/PROFILE/conclave.
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

/// The binary with the made-up next form of tasks, which nextest builds for the tests of versions.
pub fn next_form_conclave() -> PathBuf {
    let current = conclave();
    // Beside target/PROFILE/conclave is target/next-form/debug/conclave.
    let target = current.ancestors().nth(2).unwrap_or(Path::new("."));
    let binary = target.join("next-form/debug/conclave");
    assert!(
        binary.exists(),
        "{} is missing: build it with `cargo build -p conclave --features next-form --target-dir {}/next-form`",
        binary.display(),
        target.display()
    );
    binary
}

/// A `conclave` process that a test has started. Killed when dropped; its log is printed if the test fails.
pub struct NodeProcess {
    name: String,
    child: Child,
    line: String,
    log: PathBuf,
}

impl NodeProcess {
    /// Starts `conclave ARGS...` and waits until it prints that it is serving.
    pub fn start(name: &str, folder: &Path, args: &[&str]) -> Result<NodeProcess> {
        let mut command = Command::new(conclave());
        command.args(args);
        NodeProcess::launch(name, folder, command)
    }

    /// As `start`, for a prepared command.
    pub fn launch(name: &str, folder: &Path, command: Command) -> Result<NodeProcess> {
        let mut node = NodeProcess::spawn(name, folder, command)?;
        let stdout = node.child.stdout.take().context("no stdout")?;
        BufReader::new(stdout).read_line(&mut node.line)?;
        if !node.line.contains("is serving") {
            let status = node.child.wait()?;
            bail!("{name} did not serve ({status}):\n{}", node.log());
        }
        Ok(node)
    }

    /// Starts the command without waiting until it serves.
    pub fn spawn(name: &str, folder: &Path, mut command: Command) -> Result<NodeProcess> {
        command.stdout(Stdio::piped());
        NodeProcess::begin(name, folder, command)
    }

    /// As `spawn`, with standard output in the log, too.
    pub fn spawn_logged(name: &str, folder: &Path, mut command: Command) -> Result<NodeProcess> {
        command.stdout(open(&log_of(name, folder))?);
        NodeProcess::begin(name, folder, command)
    }

    fn begin(name: &str, folder: &Path, mut command: Command) -> Result<NodeProcess> {
        let log = log_of(name, folder);
        let usual = [
            ("CONCLAVE_NODE_LOG", "info"),
            // Tasks and tests exchange files outside of cells. Tests of cells ask for them.
            ("CONCLAVE_EXECUTOR_ISOLATION", "none"),
        ];
        for (variable, value) in usual {
            // Unless the test has set or removed the variable.
            if command.get_envs().all(|(known, _)| known != variable) {
                command.env(variable, value);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stderr(open(&log)?)
            .spawn()
            .context("could not start the conclave binary")?;
        Ok(NodeProcess {
            name: name.to_string(),
            child,
            line: String::new(),
            log,
        })
    }

    /// The address that the node listens on for a scheme, `http` or `rpc`.
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

    /// The line with which the node announced that it is serving.
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

    /// Kills the process, and returns when it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Waits until the process has ended.
    pub async fn wait_for_end(&mut self, within: Duration) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_until(&what, within, async || self.child.try_wait().expect("wait")).await
    }

    /// The log of this process and of earlier ones of the same name.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: i32) -> bool {
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

impl Drop for NodeProcess {
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
