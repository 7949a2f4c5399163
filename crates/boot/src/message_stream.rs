//! The connection between boot and a service, as boot uses it.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use tokio::net::UnixStream;

use crate::ServiceMessage;

/// A longer line is discarded, so that a service cannot fill boot's memory.
const MAX_LINE: usize = 64 * 1024;

/// Boot's end of the connection to one service, from which it reads the service's messages.
#[derive(Debug)]
pub(crate) struct ServiceMessageStream {
    stream: UnixStream,
    /// Received bytes that are not a complete line yet.
    partial_line: Vec<u8>,
    ended: bool,
}

impl ServiceMessageStream {
    /// Also returns the end that becomes the service's standard input.
    pub(crate) fn pair() -> io::Result<(ServiceMessageStream, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let messages = ServiceMessageStream {
            stream: UnixStream::from_std(ours)?,
            partial_line: Vec::new(),
            ended: false,
        };
        Ok((messages, theirs.into()))
    }

    /// The next message; never returns after the connection is closed. Cancel safe.
    pub(crate) async fn next(&mut self) -> ServiceMessage {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            if self.ended || self.stream.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut bytes = [0; 4096];
            let read = self.stream.try_read(&mut bytes);
            self.on_read(read, &bytes);
        }
    }

    /// The next message that is already there. Does not wait for the end of the connection, because a process that inherited
    /// the socket may keep it open.
    pub(crate) fn try_next(&mut self) -> Option<ServiceMessage> {
        loop {
            if let Some(message) = self.take() {
                return Some(message);
            }
            // A direct read, because Tokio may not know yet that the socket is readable.
            let mut bytes = [0; 4096];
            let read = nix::unistd::read(&self.stream, &mut bytes).map_err(io::Error::from);
            let nothing = !matches!(read, Ok(1..));
            self.on_read(read, &bytes);
            if nothing {
                return None;
            }
        }
    }

    fn on_read(&mut self, read: io::Result<usize>, bytes: &[u8]) {
        match read {
            Ok(0) => self.ended = true,
            Ok(count) => self.partial_line.extend_from_slice(&bytes[..count]),
            Err(error) => self.ended |= error.kind() != ErrorKind::WouldBlock,
        }
    }

    fn take(&mut self) -> Option<ServiceMessage> {
        while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial_line.drain(..=end).collect();
            if let Some(message) = ServiceMessage::from_line(&String::from_utf8_lossy(&line)) {
                return Some(message);
            }
        }
        if self.partial_line.len() > MAX_LINE {
            self.partial_line.clear();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn messages_are_reassembled_however_they_were_split() {
        let (mut messages, theirs) = ServiceMessageStream::pair().unwrap();
        let mut theirs = std::os::unix::net::UnixStream::from(theirs);
        theirs.write_all(b"rea").unwrap();
        assert_eq!(messages.try_next(), None);
        theirs.write_all(b"dy\nfuture word\nserver 7\ndoing").unwrap();
        assert_eq!(messages.next().await, ServiceMessage::Ready);
        assert_eq!(messages.next().await, ServiceMessage::ServerPid(7));
        theirs.write_all(b" this\nfailed that\n").unwrap();
        drop(theirs);
        assert_eq!(messages.next().await, ServiceMessage::Activity("this".into()));
        assert_eq!(messages.try_next(), Some(ServiceMessage::Failed("that".into())));
        assert_eq!(messages.try_next(), None);
    }

    #[tokio::test]
    async fn an_endless_line_is_discarded() {
        let (mut messages, theirs) = ServiceMessageStream::pair().unwrap();
        let mut theirs = std::os::unix::net::UnixStream::from(theirs);
        for _ in 0..100 {
            theirs.write_all(&[b'x'; 4096]).unwrap();
            assert_eq!(messages.try_next(), None);
            assert!(messages.partial_line.len() <= MAX_LINE);
        }
        theirs.write_all(b"\nready\n").unwrap();
        assert_eq!(messages.try_next(), Some(ServiceMessage::Ready));
    }
}
