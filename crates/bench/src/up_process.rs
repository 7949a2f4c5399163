//! A `conclave up` that the benchmark starts as a child process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use api::HttpClient;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::process_tree;

/// A running `conclave up` that the benchmark has started as a child process, and clients for it.
pub(crate) struct UpProcess {
    child: Child,
    pid: u32,
    pub(crate) client: HttpClient,
    pub(crate) http_address: String,
    pub(crate) rpc_address: String,
    /// Time from the start of the process to its first answer.
    pub(crate) start_time: Duration,
}

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

impl UpProcess {
    /// Starts a server that runs tasks without cells, to measure the cost of everything else.
    pub(crate) async fn start(data: &Path, slots: &str) -> Result<UpProcess> {
        Self::start_with_isolation(data, slots, "none").await
    }

    pub(crate) async fn start_with_isolation(data: &Path, slots: &str, isolation: &str) -> Result<UpProcess> {
        Self::start_with(data, &["--slots", slots, "--isolation", isolation]).await
    }

    pub(crate) async fn start_with(data: &Path, flags: &[&str]) -> Result<UpProcess> {
        let began = Instant::now();
        let mut command = Command::new("/proc/self/exe");
        command
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--rpc",
                "127.0.0.1:0",
                "--log",
                "warn",
            ])
            .args(flags)
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        clear_conclave_environment(&mut command);
        let mut child = command.spawn().context("could not start `conclave up`")?;
        let pid = child
            .id()
            .ok_or_else(|| anyhow!("`conclave up` exited at once"))?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| anyhow!("`conclave up` has no stdout"))?;
        let mut line = String::new();
        tokio::time::timeout(START_TIMEOUT, BufReader::new(stdout).read_line(&mut line))
            .await
            .with_context(|| format!("`conclave up` was not ready within {START_TIMEOUT:?}"))?
            .context("could not read from `conclave up`")?;
        let address = |scheme| {
            address_in_ready_line(&line, scheme)
                .map(str::to_string)
                .ok_or_else(|| anyhow!("`conclave up` did not start; see its error message above"))
        };
        let http_address = address("http")?;
        let client = HttpClient::new(&http_address, None)?;
        client.judicators().await?;
        Ok(UpProcess {
            pid,
            client,
            http_address,
            rpc_address: address("rpc")?,
            start_time: began.elapsed(),
            child,
        })
    }

    /// Current resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.memory_line("VmRSS")
    }

    /// The largest resident memory since its start, in bytes.
    pub(crate) fn peak_resident_bytes(&self) -> Result<u64> {
        self.memory_line("VmHWM")
    }

    /// CPU time of the server and all its descendants since its start.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        process_tree::cpu_time(self.pid)
    }

    fn memory_line(&self, name: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let status = std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        parse_memory_line(&status, name).ok_or_else(|| anyhow!("{path} has no {name} line"))
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid)?);
        kill(pid, Signal::SIGTERM).context("could not stop `conclave up`")?;
        let status = tokio::time::timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .with_context(|| format!("`conclave up` did not stop within {STOP_TIMEOUT:?}"))??;
        ensure!(status.success(), "`conclave up` failed with {status}");
        Ok(())
    }
}

/// The benchmark measures the defaults, so it hides the settings in this process's environment from the child.
pub(crate) fn clear_conclave_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONCLAVE_") {
            command.env_remove(name);
        }
    }
}

/// The address for a scheme such as `http` in the line `conclave NODE is serving: ...`, which a node prints when it is ready.
pub fn address_in_ready_line<'a>(line: &'a str, scheme: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {scheme}://"))?;
    rest.split(',').next()
}

fn parse_memory_line(status: &str, name: &str) -> Option<u64> {
    let is_named = |line: &&str| line.split(':').next() == Some(name);
    let line = status.lines().find(is_named)?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_proc_status() {
        assert_eq!(
            parse_memory_line("Name:\tx\nVmRSS:\t    2048 kB\nThreads: 1", "VmRSS"),
            Some(2 << 20)
        );
        assert_eq!(parse_memory_line("Name:\tx", "VmRSS"), None);
    }
}
