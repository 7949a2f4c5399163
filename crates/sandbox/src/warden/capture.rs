//! Captures the beginning of the output of commands in the memory that the warden shares with its owner.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::outcome::CapturedStream;
use crate::output::{OutputMemory, StandardStream, wake};
use crate::wire::{self, WardenResponse, descriptors};

/// Where a warden puts the output of its commands: the memory shared with its owner, and the eventfd with which it
/// wakes a follower.
pub(super) struct WardenOutput {
    memory: OutputMemory,
    wakeup: File,
}

impl WardenOutput {
    pub(super) fn new(memfd: OwnedFd, wakeup: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            memory: OutputMemory::map(memfd)?,
            wakeup: wakeup.into(),
        })
    }

    /// The captures of both streams of the next run.
    pub(super) fn captures<'a>(&'a self, max_captured: u64, owner: &'a UnixStream) -> [StreamCapture<'a>; 2] {
        StandardStream::BOTH.map(|stream| StreamCapture {
            output: self,
            owner,
            stream,
            max_captured,
            captured: 0,
            total: 0,
            is_handed_over: false,
        })
    }
}

/// Captures one output stream of one run: up to a maximum of bytes, as long as they fit into the shared memory. If more
/// bytes are wanted, it hands the stream over to the owner.
pub(super) struct StreamCapture<'a> {
    output: &'a WardenOutput,
    owner: &'a UnixStream,
    stream: StandardStream,
    max_captured: u64,
    captured: u64,
    total: u64,
    is_handed_over: bool,
}

impl StreamCapture<'_> {
    /// All bytes that the warden has read, captured or not. The owner counts those of a stream that it has.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether the owner reads the rest of the stream.
    pub(super) fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Reads once, or hands the stream over. `scratch` takes the bytes beyond the maximum.
    pub(super) fn read_from(&mut self, mut source: &File, scratch: &mut [u8]) -> io::Result<()> {
        let room = self.room_in_head();
        if !room.is_empty() {
            let count = source.read(room)?;
            self.total += count as u64;
            self.publish(count);
            Ok(())
        } else if self.captured < self.max_captured {
            self.hand_over(source)
        } else {
            self.total += source.read(scratch)? as u64;
            Ok(())
        }
    }

    /// Text that does not fit into the head is lost.
    pub(super) fn append(&mut self, text: &[u8]) {
        self.total += text.len() as u64;
        let room = self.room_in_head();
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text[..count]);
        self.publish(count);
    }

    pub(super) fn into_captured(self) -> CapturedStream {
        CapturedStream {
            size: self.captured,
            truncated: self.total > self.captured,
            ..CapturedStream::default()
        }
    }

    /// The part of the head that has to be filled next.
    fn room_in_head(&mut self) -> &mut [u8] {
        // SAFETY: there is one capture for each stream at a time, and this reference borrows it.
        let head = unsafe { self.output.memory.head(self.stream) };
        let end = usize::try_from(self.max_captured).map_or(head.len(), |max| max.min(head.len()));
        let start = usize::try_from(self.captured).map_or(end, |captured| captured.min(end));
        &mut head[start..end]
    }

    /// The send does not block: the owner gets at most two such messages in a run.
    fn hand_over(&mut self, source: &File) -> io::Result<()> {
        let mut frame = Vec::new();
        wire::encode(&WardenResponse::LongOutput(self.stream), &mut frame)?;
        descriptors::send(self.owner, &frame, &[source.as_fd()])?;
        self.is_handed_over = true;
        Ok(())
    }

    /// Makes captured bytes visible to the owner.
    fn publish(&mut self, count: usize) {
        if count > 0 {
            self.captured += count as u64;
            self.output.memory.publish(self.stream, self.captured);
            if self.output.memory.is_followed() {
                wake(&self.output.wakeup);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;
    use crate::output::STREAM_HEAD;
    use crate::wire::descriptors::DescriptorReceiver;

    const HEAD: u64 = STREAM_HEAD as u64;

    fn output() -> WardenOutput {
        let (_, memfd) = OutputMemory::create().unwrap();
        WardenOutput::new(memfd, tempfile::tempfile().unwrap().into()).unwrap()
    }

    fn source(length: u64) -> File {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all(&vec![b'.'; length as usize]).unwrap();
        source.rewind().unwrap();
        source
    }

    #[test]
    fn appended_text_continues_the_stream() {
        /// Appends text to a stream of this length, and compares the end of the head.
        fn check(length: u64, max_captured: u64, size: u64, in_head: &[u8]) {
            let (output, (socket, _)) = (output(), UnixStream::pair().unwrap());
            let [_, mut stderr] = output.captures(max_captured, &socket);
            let source = source(length);
            let mut scratch = vec![0; 1000];
            while stderr.total() < length {
                stderr.read_from(&source, &mut scratch).unwrap();
            }
            stderr.append(b"123");
            stderr.append(b"456");
            assert!(!stderr.is_handed_over());
            let captured = stderr.into_captured();
            assert_eq!(
                (captured.size, captured.truncated),
                (size, size < length + 6),
                "{length} {max_captured}"
            );
            // SAFETY: it is the only reference to this head.
            let head = unsafe { output.memory.head(StandardStream::Stderr) };
            assert!(head[..size as usize].ends_with(in_head), "{length}");
        }
        check(0, u64::MAX, 6, b"123456");
        check(7, 9, 9, b".12");
        check(9, 9, 9, b".");
        check(9, 0, 0, b"");
        check(HEAD - 6, u64::MAX, HEAD, b".123456");
        check(HEAD - 4, u64::MAX, HEAD, b".1234");
        check(HEAD + 5000, HEAD, HEAD, b".");
    }

    #[test]
    fn the_owner_gets_the_pipe_of_a_stream_that_is_longer_than_its_head() {
        let (output, (warden, owner)) = (output(), UnixStream::pair().unwrap());
        let [mut stdout, _] = output.captures(HEAD + 1, &warden);
        let source = source(HEAD + 7);
        while !stdout.is_handed_over() {
            stdout.read_from(&source, &mut []).unwrap();
        }
        assert_eq!(stdout.total(), HEAD);
        let mut receiver = DescriptorReceiver::new(&owner);
        let notice = wire::receive(&mut receiver, &mut Vec::new()).unwrap();
        assert!(matches!(
            notice,
            Some(WardenResponse::LongOutput(StandardStream::Stdout))
        ));
        let mut rest = Vec::new();
        let mut pipe = File::from(receiver.descriptors.pop().unwrap());
        pipe.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b".......");
    }
}
