//! One process of a service, from its start to its exit.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::message_stream::ServiceMessageStream;
use crate::process::ProcessIdentity;
use crate::service_log::ServiceLog;
use crate::{ServiceMessage, ServiceSpec};

/// How long the wrapped server of a service may take to exit after the service.
const SERVER_EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The running process of a service that boot has started, and the connection to it.
pub(crate) struct ServiceProcess {
    process: tokio::process::Child,
    pub(crate) identity: Option<ProcessIdentity>,
    messages: ServiceMessageStream,
}

/// What the process of a service did, as its supervisor sees it: it sent a message, or exited.
pub(crate) enum ServiceProcessEvent {
    Message(ServiceMessage),
    Exited(io::Result<ExitStatus>),
}

impl ServiceProcess {
    /// Starts the process in its own process group, so that Ctrl-C at a terminal reaches only boot, which then stops the
    /// services in order.
    pub(crate) fn spawn(service: &ServiceSpec, log: &ServiceLog) -> io::Result<ServiceProcess> {
        let (messages, stdin) = ServiceMessageStream::pair()?;
        let output = log.open().map_err(|error| with_path(log.path(), &error))?;
        let process = Command::new(&service.program)
            .args(&service.args)
            .stdin(Stdio::from(stdin))
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .map_err(|error| with_path(&service.program, &error))?;
        let identity = process.id().and_then(ProcessIdentity::of);
        Ok(ServiceProcess {
            process,
            identity,
            messages,
        })
    }

    /// The next event; an exit comes before messages that were not read yet. Cancel safe.
    pub(crate) async fn next(&mut self) -> ServiceProcessEvent {
        tokio::select! {
            biased;
            status = self.process.wait() => ServiceProcessEvent::Exited(status),
            message = self.messages.next() => ServiceProcessEvent::Message(message),
        }
    }

    /// The next message that the process sent before it exited.
    pub(crate) fn try_next_message(&mut self) -> Option<ServiceMessage> {
        self.messages.try_next()
    }

    /// Sends SIGTERM, and SIGCONT so that a stopped process receives it.
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

    /// The pid cannot be reused before the process is reaped, which only `next` does.
    fn send(&self, signal: Signal) {
        if let Some(pid) = self.process.id().and_then(|pid| i32::try_from(pid).ok()) {
            // An error means that the process has exited.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// Adds the path to an I/O error, because `conclave status` shows it without context.
fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Waits for the wrapped server of a service that has exited. The kernel kills it, but until then it holds the port and the
/// data folder that its successor needs.
pub(crate) async fn wait_for_server_exit(server: Option<ProcessIdentity>) {
    if let Some(process) = server.and_then(|server| server.open_handle().ok().flatten()) {
        let _ = tokio::time::timeout(SERVER_EXIT_TIMEOUT, process.wait_for_exit()).await;
    }
}

/// How the process exited, with the reason if it sent one.
pub(crate) fn describe_exit(status: ExitStatus, reason: Option<&str>) -> String {
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
    fn exits_are_described() {
        for (raw, reason, expected) in [
            (0, None, "exit code 0"),
            (
                1 << 8,
                Some("the port is taken"),
                "exit code 1: the port is taken",
            ),
            (9, None, "signal 9"),
        ] {
            assert_eq!(describe_exit(ExitStatus::from_raw(raw), reason), expected);
        }
    }
}
