//! The line between boot and a service, seen from boot.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use tokio::net::UnixStream;

use crate::Word;

/// A service that never ends its line must not fill our memory.
const LONGEST: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Words {
    stream: UnixStream,
    /// What came and is no whole line yet.
    rest: Vec<u8>,
    ended: bool,
}

impl Words {
    /// With the end that becomes the service's standard input.
    pub(crate) fn pair() -> io::Result<(Words, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let words = Words {
            stream: UnixStream::from_std(ours)?,
            rest: Vec::new(),
            ended: false,
        };
        Ok((words, theirs.into()))
    }

    /// The next word; never, when no more will come. Nothing is lost if it is dropped while it waits.
    pub(crate) async fn next(&mut self) -> Word {
        loop {
            if let Some(word) = self.take() {
                return word;
            }
            if self.ended || self.stream.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut bytes = [0; 4096];
            let read = self.stream.try_read(&mut bytes);
            self.on_read(read, &bytes);
        }
    }

    /// What has been said and not yet heard, without waiting: whoever inherited the line may keep it open.
    pub(crate) fn heard(&mut self) -> Option<Word> {
        loop {
            if let Some(word) = self.take() {
                return Some(word);
            }
            // Past the runtime, which may not know yet that there is something.
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
            Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
            Err(error) => self.ended |= error.kind() != ErrorKind::WouldBlock,
        }
    }

    fn take(&mut self) -> Option<Word> {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some(word) = Word::parse(&String::from_utf8_lossy(&line)) {
                return Some(word);
            }
        }
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn words_come_whole_however_they_were_cut() {
        let (mut words, theirs) = Words::pair().unwrap();
        let mut theirs = std::os::unix::net::UnixStream::from(theirs);
        theirs.write_all(b"rea").unwrap();
        assert_eq!(words.heard(), None);
        theirs.write_all(b"dy\nfuture word\nserver 7\ndoing").unwrap();
        assert_eq!(words.next().await, Word::Ready);
        assert_eq!(words.next().await, Word::Server(7));
        theirs.write_all(b" this\nfailed that\n").unwrap();
        drop(theirs);
        assert_eq!(words.next().await, Word::Doing("this".into()));
        assert_eq!(words.heard(), Some(Word::Failed("that".into())));
        assert_eq!(words.heard(), None);
    }

    #[tokio::test]
    async fn an_endless_line_is_dropped() {
        let (mut words, theirs) = Words::pair().unwrap();
        let mut theirs = std::os::unix::net::UnixStream::from(theirs);
        for _ in 0..100 {
            theirs.write_all(&[b'x'; 4096]).unwrap();
            assert_eq!(words.heard(), None);
            assert!(words.rest.len() <= LONGEST);
        }
        theirs.write_all(b"\nready\n").unwrap();
        assert_eq!(words.heard(), Some(Word::Ready));
    }
}
