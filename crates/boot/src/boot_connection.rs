//! The connection between boot and a service, as the service uses it.
//!
//! Boot gives every service one end of a socket as its standard input. The service writes messages to it, one per line; boot
//! never writes. When boot exits, for whatever reason, the socket is closed and the service exits too. So no service outlives
//! its boot.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::stat::{SFlag, fstat};
use tokio::net::UnixStream;

/// A message from a service to boot: that it is ready, what it is doing, its server's pid, or why it exits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceMessage {
    /// The service is ready; services that need it may start.
    Ready,
    /// The process of the wrapped program, if the service is a wrapper (etcd, mongod).
    ServerPid(u32),
    /// What the service is doing, for `conclave status`.
    Activity(String),
    /// Why the service is about to exit, for boot's log and `conclave status`.
    Failed(String),
}

impl ServiceMessage {
    pub fn to_line(&self) -> String {
        match self {
            ServiceMessage::Ready => "ready\n".to_string(),
            ServiceMessage::ServerPid(pid) => format!("server {pid}\n"),
            ServiceMessage::Activity(what) => format!("doing {}\n", what.replace('\n', " ")),
            ServiceMessage::Failed(why) => format!("failed {}\n", why.replace('\n', " ")),
        }
    }

    /// `None` for an unknown message, as a newer version may send it.
    pub fn from_line(line: &str) -> Option<ServiceMessage> {
        match line.trim_end().split_once(' ') {
            None if line.trim_end() == "ready" => Some(ServiceMessage::Ready),
            Some(("server", pid)) => pid.parse().ok().map(ServiceMessage::ServerPid),
            Some(("doing", what)) => Some(ServiceMessage::Activity(what.to_string())),
            Some(("failed", why)) => Some(ServiceMessage::Failed(why.to_string())),
            _ => None,
        }
    }
}

/// A service's end of its connection to boot, over which it reports its state. Without boot (a service that was started
/// by hand) it sends nothing.
#[derive(Clone, Debug)]
pub struct BootConnection(Option<Arc<UnixStream>>);

impl BootConnection {
    /// Uses standard input if it is a socket. Call this once, inside the Tokio runtime.
    pub fn from_stdin() -> io::Result<BootConnection> {
        let stdin = io::stdin();
        if !is_socket(&stdin) {
            return Ok(BootConnection(None));
        }
        let stream = std::os::unix::net::UnixStream::from(stdin.as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        Ok(BootConnection(Some(Arc::new(UnixStream::from_std(stream)?))))
    }

    /// For a process that runs without boot.
    pub fn none() -> BootConnection {
        BootConnection(None)
    }

    /// Sends a message without blocking. If boot does not read (it may be stopped), the message is lost.
    pub fn send(&self, message: &ServiceMessage) {
        if let Some(stream) = &self.0 {
            // A message is much shorter than the socket's buffer, so it is written completely or not at all. A direct
            // write, because Tokio does not consider a new socket writable before its first poll.
            let _ = nix::unistd::write(stream, message.to_line().as_bytes());
        }
    }

    /// Returns when boot has exited; never, without boot.
    pub async fn wait_for_boot_exit(&self) {
        let Some(stream) = &self.0 else {
            return std::future::pending().await;
        };
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut [0]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Sends [`ServiceMessage::Failed`] if the service has no [`BootConnection`], not yet or no longer.
pub fn report_failure_on_stdin(why: &str) {
    let stdin = io::stdin();
    if is_socket(&stdin) {
        let _ = nix::unistd::write(
            &stdin,
            ServiceMessage::Failed(why.to_string()).to_line().as_bytes(),
        );
    }
}

fn is_socket(stdin: &io::Stdin) -> bool {
    fstat(stdin.as_fd())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_they_were_written() {
        for message in [
            ServiceMessage::Ready,
            ServiceMessage::ServerPid(17),
            ServiceMessage::Activity("waiting for 3 addresses".into()),
            ServiceMessage::Failed("the port 2379 is taken".into()),
        ] {
            assert_eq!(ServiceMessage::from_line(&message.to_line()), Some(message));
        }
        for line in ["", "server x", "dancing", "ready now"] {
            assert_eq!(ServiceMessage::from_line(line), None, "{line}");
        }
    }
}
