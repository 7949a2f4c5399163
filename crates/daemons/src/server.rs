//! A real server as the child of its daemon: started on a leash, watched, stopped.

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

/// Dropping it kills the server: a daemon that gives up leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Server {
    what: &'static str,
    child: Child,
    pid: u32,
}

#[derive(Debug, Error)]
#[error("could not start {what} as {program:?}")]
pub struct StartError {
    what: &'static str,
    program: PathBuf,
    #[source]
    source: std::io::Error,
}

impl Server {
    /// `leash` is the command that ties the server's life to ours; it is given our process id and becomes the
    /// server. An empty one starts the server directly. The server writes to our own output, which boot made its
    /// log.
    ///
    /// A leash is tied to the thread that starts it, so this is to be called where that thread lives as long as
    /// the process: on a runtime of one thread.
    pub(crate) fn start(
        what: &'static str,
        program: &Path,
        args: Vec<OsString>,
        leash: &[OsString],
    ) -> Result<Server, StartError> {
        let mut command = match leash.split_first() {
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
            .map_err(|source| StartError {
                what,
                program: program.to_path_buf(),
                source,
            })?;
        // A child has an id until it was waited for, and nobody has waited yet.
        let pid = child.id().unwrap_or_default();
        tracing::info!(pid, "{what} started");
        Ok(Server { what, child, pid })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns when the server has ended, and tells how. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("{} {}", self.what, in_words(status)),
            Err(error) => format!("{} cannot be waited for: {error}", self.what),
        }
    }

    /// Asks it to end, and makes it end when it has not within `grace`. Returns when it is gone, and tells how it
    /// went.
    pub(crate) async fn stop(mut self, grace: Duration) -> String {
        self.signal(Signal::SIGTERM);
        let Ok(how) = tokio::time::timeout(grace, self.ended()).await else {
            tracing::warn!("{} did not end within {grace:?} and is killed", self.what);
            return self.kill().await;
        };
        tracing::info!("{how}");
        how
    }

    /// Ends it at once. Returns when it is gone, and tells how it went.
    pub(crate) async fn kill(mut self) -> String {
        self.signal(Signal::SIGKILL);
        // Not within the log line: what stands there happens only if lines of its level are written.
        let how = self.ended().await;
        tracing::info!("{how}");
        how
    }

    /// The child's id is ours only until the child was waited for.
    fn signal(&self, signal: Signal) {
        let running = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = running {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

fn in_words(status: ExitStatus) -> String {
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

    fn sh(script: &str, leash: &[OsString]) -> Server {
        Server::start(
            "sh",
            Path::new("/bin/sh"),
            vec!["-c".into(), script.into()],
            leash,
        )
        .unwrap()
    }

    #[tokio::test]
    async fn the_end_is_told_in_words() {
        for (script, words) in [
            ("exit 0", "sh ended"),
            ("exit 3", "sh ended with exit code 3"),
            ("kill -9 $$", "sh was ended by SIGKILL"),
        ] {
            assert_eq!(sh(script, &[]).ended().await, words);
        }
    }

    #[tokio::test]
    async fn what_does_not_end_when_asked_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let deaf = folder.path().join("deaf");
        nix::unistd::mkfifo(&deaf, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let server = sh(
            &format!("trap '' TERM; echo > {deaf:?}; while :; do sleep 0.05; done"),
            &[],
        );
        let pid = server.pid();
        assert_eq!(std::fs::read(&deaf).unwrap(), b"\n");
        let how = server.stop(Duration::from_millis(200)).await;
        assert_eq!(how, "sh was ended by SIGKILL");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn a_leash_is_given_our_process_id_and_the_program() {
        let ours = std::process::id();
        let leash = ["/bin/sh", "-c", &format!("test $0 = {ours} && exec \"$@\"")].map(OsString::from);
        assert_eq!(sh("exit 5", &leash).ended().await, "sh ended with exit code 5");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = Server::start("etcd", Path::new("/nowhere/etcd"), Vec::new(), &[]).unwrap_err();
        assert_eq!(error.to_string(), "could not start etcd as \"/nowhere/etcd\"");
    }
}
