//! The process of a server (etcd or mongod): started, awaited and stopped by its daemon.

pub(crate) mod port;
pub(crate) mod program;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::ExitStatusExt;
use thiserror::Error;
use tokio::process::{Child, Command};

/// A running etcd or mongod, a child process of its daemon. Dropping it kills the process, so that a daemon that fails
/// leaves no server behind.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    name: &'static str,
    child: Child,
    pid: u32,
}

/// Why a daemon could not execute the program of its server (etcd or mongod).
#[derive(Debug, Error)]
#[error("could not start {name} as {program:?}")]
pub struct ServerStartError {
    name: &'static str,
    program: PathBuf,
    #[source]
    source: std::io::Error,
}

impl ServerProcess {
    /// `parent_death_wrapper` is a command that makes the kernel end the server when the daemon ends: it is called
    /// with the daemon's process id, the program and its arguments, and then becomes the server. If it is empty, the
    /// server is started directly. The server inherits the daemon's output, which boot has connected to the service's
    /// log.
    ///
    /// The kernel ends the server when the *thread* that started it ends, so this has to be called on a thread that
    /// lives as long as the process: on a runtime with one thread.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        args: Vec<OsString>,
        parent_death_wrapper: &[OsString],
    ) -> Result<ServerProcess, ServerStartError> {
        let mut command = match parent_death_wrapper.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command
                    .args(rest)
                    .arg(std::process::id().to_string())
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        let child = command
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| ServerStartError {
                name,
                program: program.to_path_buf(),
                source,
            })?;
        // The child has an id until somebody has waited for it, which has not happened yet.
        let pid = child.id().unwrap_or_default();
        tracing::info!(pid, "started {name}");
        Ok(ServerProcess { name, child, pid })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when the server has ended, with a description of how. Cancel-safe: it may be dropped and called again.
    pub(crate) async fn wait(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("{} {}", self.name, describe_exit(status)),
            Err(error) => format!("could not wait for {}: {error}", self.name),
        }
    }

    /// Sends SIGTERM, and SIGKILL if the server has not ended within `timeout`. Returns when it has ended, with a
    /// description of how.
    pub(crate) async fn stop(mut self, timeout: Duration) -> String {
        self.signal(Signal::SIGTERM);
        let Ok(exit) = tokio::time::timeout(timeout, self.wait()).await else {
            tracing::warn!("{} did not end within {timeout:?}; killing it", self.name);
            return self.kill().await;
        };
        tracing::info!("{exit}");
        exit
    }

    /// Sends SIGKILL. Returns when the server has ended, with a description of how.
    pub(crate) async fn kill(mut self) -> String {
        self.signal(Signal::SIGKILL);
        // Not inside the log macro, which evaluates its arguments only if the level is enabled.
        let exit = self.wait().await;
        tracing::info!("{exit}");
        exit
    }

    /// Once the child was waited for, the kernel may have given its id to another process.
    fn signal(&self, signal: Signal) {
        let running = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = running {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended".to_string(),
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("was ended by {signal}"),
            Err(_) => format!("was ended by signal {number}"),
        },
        (None, None) => format!("ended: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, wrapper: &[OsString]) -> ServerProcess {
        ServerProcess::start(
            "sh",
            Path::new("/bin/sh"),
            vec!["-c".into(), script.into()],
            wrapper,
        )
        .unwrap()
    }

    #[tokio::test]
    async fn the_exit_is_described_by_code_or_signal() {
        for (script, description) in [
            ("exit 0", "sh ended"),
            ("exit 3", "sh ended with exit code 3"),
            ("kill -9 $$", "sh was ended by SIGKILL"),
        ] {
            assert_eq!(sh(script, &[]).wait().await, description);
        }
    }

    #[tokio::test]
    async fn a_server_that_ignores_sigterm_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        nix::unistd::mkfifo(&ready, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let server = sh(
            &format!("trap '' TERM; echo > {ready:?}; while :; do sleep 0.05; done"),
            &[],
        );
        let pid = server.pid();
        assert_eq!(std::fs::read(&ready).unwrap(), b"\n");
        let exit = server.stop(Duration::from_millis(200)).await;
        assert_eq!(exit, "sh was ended by SIGKILL");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn the_wrapper_gets_the_daemon_process_id_and_the_program() {
        let ours = std::process::id();
        let wrapper = ["/bin/sh", "-c", &format!("test $0 = {ours} && exec \"$@\"")].map(OsString::from);
        assert_eq!(sh("exit 5", &wrapper).wait().await, "sh ended with exit code 5");
    }

    #[tokio::test]
    async fn the_error_names_a_missing_program() {
        let error = ServerProcess::start("etcd", Path::new("/nowhere/etcd"), Vec::new(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "could not start etcd as \"/nowhere/etcd\"");
    }
}
