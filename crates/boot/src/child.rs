//! One life of a service's process.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::log::Log;
use crate::process::Identity;
use crate::words::Words;
use crate::{Service, Word};

/// How long the server of a service that died may take to follow it.
const SERVER_ENDS: Duration = Duration::from_secs(5);

pub(crate) struct Child {
    process: tokio::process::Child,
    pub(crate) identity: Option<Identity>,
    words: Words,
}

pub(crate) enum Event {
    Said(Word),
    Ended(io::Result<ExitStatus>),
}

impl Child {
    /// In a process group of its own, so that Ctrl-C at a terminal reaches boot alone, which then stops in order.
    pub(crate) fn spawn(service: &Service, log: &Log) -> io::Result<Child> {
        let (words, stdin) = Words::pair()?;
        let output = log.open().map_err(|error| about(log.path(), &error))?;
        let process = Command::new(&service.program)
            .args(&service.args)
            .stdin(Stdio::from(stdin))
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(|error| about(&service.program, &error))?;
        let identity = process.id().and_then(Identity::of);
        Ok(Child {
            process,
            identity,
            words,
        })
    }

    /// Its end is told as soon as it comes. Nothing is lost if this is dropped while it waits.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            status = self.process.wait() => Event::Ended(status),
            word = self.words.next() => Event::Said(word),
        }
    }

    /// What it said before it ended, and nobody has heard.
    pub(crate) fn last_word(&mut self) -> Option<Word> {
        self.words.heard()
    }

    /// Asks it to end; wakes it if it was stopped, for it could not even hear otherwise.
    pub(crate) fn terminate(&self) {
        self.send(Signal::SIGTERM);
        self.send(Signal::SIGCONT);
    }

    pub(crate) fn hang_up(&self) {
        self.send(Signal::SIGHUP);
    }

    pub(crate) fn kill(&self) {
        self.send(Signal::SIGKILL);
    }

    /// The number is ours as long as nobody has waited for it, which only `next` does.
    fn send(&self, signal: Signal) {
        if let Some(pid) = self.process.id().and_then(|pid| i32::try_from(pid).ok()) {
            // An error means that it has gone by itself.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// With the file that it is about, for whoever reads it in `conclave status`.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A server is killed when its service dies, but it takes a moment; its successor would find port and data taken.
pub(crate) async fn server_ended(server: Option<Identity>) {
    if let Some(process) = server.and_then(|server| server.open().ok().flatten()) {
        let _ = tokio::time::timeout(SERVER_ENDS, process.ended()).await;
    }
}

/// How it ended, with the reason if it gave one.
pub(crate) fn describe(status: ExitStatus, reason: Option<&str>) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_string(),
    };
    match reason {
        Some(reason) => format!("{how}: {reason}"),
        None => how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_described() {
        for (raw, reason, expected) in [
            (0, None, "exit code 0"),
            (
                1 << 8,
                Some("the port is taken"),
                "exit code 1: the port is taken",
            ),
            (9, None, "signal 9"),
        ] {
            assert_eq!(describe(ExitStatus::from_raw(raw), reason), expected);
        }
    }
}
