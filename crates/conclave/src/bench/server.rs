//! A `conclave up` of our own, as a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use api::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::node::serving;

pub(super) struct Server {
    child: Child,
    pid: u32,
    pub(super) client: Client,
    pub(super) rpc: String,
    /// From its start to its first answer.
    pub(super) took: Duration,
}

const START_WITHIN: Duration = Duration::from_secs(120);
const STOP_WITHIN: Duration = Duration::from_secs(60);

impl Server {
    /// Without cells: what is measured with it is what everything else costs.
    pub(super) async fn start(data: &Path, slots: &str) -> Result<Server> {
        Self::start_apart(data, slots, "none").await
    }

    pub(super) async fn start_apart(data: &Path, slots: &str, isolation: &str) -> Result<Server> {
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
            .args(["--slots", slots, "--isolation", isolation])
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        without_settings(&mut command);
        let mut child = command.spawn().context("could not start `conclave up`")?;
        let pid = child.id().ok_or_else(|| anyhow!("`conclave up` ended at once"))?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| anyhow!("`conclave up` has no stdout"))?;
        let mut line = String::new();
        tokio::time::timeout(START_WITHIN, BufReader::new(stdout).read_line(&mut line))
            .await
            .with_context(|| format!("`conclave up` did not serve within {START_WITHIN:?}"))?
            .context("could not read from `conclave up`")?;
        let address = |scheme| {
            serving::address(&line, scheme)
                .map(str::to_string)
                .ok_or_else(|| anyhow!("`conclave up` did not start; its own message stands above"))
        };
        let client = Client::new(&address("http")?, None)?;
        client.judicators().await?;
        Ok(Server {
            pid,
            client,
            rpc: address("rpc")?,
            took: began.elapsed(),
            child,
        })
    }

    /// Bytes in memory now.
    pub(super) fn resident(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let status = std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        resident_in(&status).ok_or_else(|| anyhow!("{path} does not say VmRSS"))
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid)?);
        kill(pid, Signal::SIGTERM).context("could not stop `conclave up`")?;
        let status = tokio::time::timeout(STOP_WITHIN, self.child.wait())
            .await
            .with_context(|| format!("`conclave up` did not stop within {STOP_WITHIN:?}"))??;
        ensure!(status.success(), "`conclave up` ended with {status}");
        Ok(())
    }
}

/// The defaults are measured, not what this shell happens to set.
pub(super) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONCLAVE_") {
            command.env_remove(name);
        }
    }
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_found() {
        assert_eq!(
            resident_in("Name:\tx\nVmRSS:\t    2048 kB\nThreads: 1"),
            Some(2 << 20)
        );
        assert_eq!(resident_in("Name:\tx"), None);
    }
}
