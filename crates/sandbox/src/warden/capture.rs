//! Captures the output of commands in the memory that the warden shares with its owner, and in overflow files.
//!
//! Overflow files hold whole streams, from their first byte on, so that the owner can pass them on as they are.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::outcome::CapturedStream;
use crate::output::{OutputMemory, STREAM_HEAD, StandardStream, wake};

/// Where a warden puts the output of its commands: the memory shared with its owner and the overflow files, and the
/// eventfd with which it wakes a follower.
pub(super) struct WardenOutput {
    memory: OutputMemory,
    wakeup: File,
    overflow_files: [Option<File>; 2],
}

impl WardenOutput {
    pub(super) fn new(memfd: OwnedFd, wakeup: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            memory: OutputMemory::map(memfd)?,
            wakeup: wakeup.into(),
            overflow_files: [None, None],
        })
    }

    /// Takes the overflow files that the owner has sent for these streams.
    pub(super) fn take_files(&mut self, streams: Vec<StandardStream>, files: Vec<OwnedFd>) {
        for (stream, file) in streams.into_iter().zip(files) {
            self.overflow_files[stream.index()] = Some(file.into());
        }
    }

    /// The captures of both streams of the next run.
    pub(super) fn captures(&self, max_captured: u64) -> [StreamCapture<'_>; 2] {
        StandardStream::BOTH.map(|stream| StreamCapture {
            memory: &self.memory,
            wakeup: &self.wakeup,
            stream,
            overflow_file: self.overflow_files[stream.index()].as_ref(),
            max_captured,
            captured: 0,
            total: 0,
        })
    }

    /// Closes the files that the last run wrote to, which belong to the owner now. A cell that is started later would
    /// otherwise keep them open, and so their disk space in use, until its command runs.
    pub(super) fn close_used_files(&mut self) {
        for stream in StandardStream::BOTH {
            let has_overflowed = self.memory.has_overflowed(stream);
            self.overflow_files[stream.index()].take_if(|_| has_overflowed);
        }
    }
}

/// Captures one output stream of one run: up to a maximum of bytes, in the shared memory as long as they fit, then in
/// the overflow file.
pub(super) struct StreamCapture<'a> {
    memory: &'a OutputMemory,
    wakeup: &'a File,
    stream: StandardStream,
    /// `None` if the owner could not create one, or after a write to it failed.
    overflow_file: Option<&'a File>,
    max_captured: u64,
    captured: u64,
    total: u64,
}

impl StreamCapture<'_> {
    /// All bytes written, captured or not.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Reads once. `read_buffer` takes the bytes that do not fit into the shared memory.
    pub(super) fn read_from(&mut self, mut source: &File, read_buffer: &mut [u8]) -> io::Result<()> {
        let room = self.room_in_head();
        if room.is_empty() {
            let count = source.read(read_buffer)?;
            self.total += count as u64;
            self.keep_beyond_head(&read_buffer[..count]);
        } else {
            let count = source.read(room)?;
            self.total += count as u64;
            self.publish(count);
        }
        Ok(())
    }

    pub(super) fn append(&mut self, text: &[u8]) {
        self.total += text.len() as u64;
        let room = self.room_in_head();
        let (in_head, rest) = text.split_at(room.len().min(text.len()));
        room[..in_head.len()].copy_from_slice(in_head);
        self.publish(in_head.len());
        self.keep_beyond_head(rest);
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
        let head = unsafe { self.memory.head(self.stream) };
        let end = usize::try_from(self.max_captured).map_or(head.len(), |max| max.min(head.len()));
        let start = usize::try_from(self.captured).map_or(end, |captured| captured.min(end));
        &mut head[start..end]
    }

    /// Writes to the overflow file what is still wanted of these bytes. If a write fails, for example because the disk
    /// is full, the stream ends here, and the command goes on.
    fn keep_beyond_head(&mut self, bytes: &[u8]) {
        let room = self.max_captured - self.captured;
        let wanted = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        let Some(file) = self.overflow_file.filter(|_| wanted > 0) else {
            return;
        };
        if self.captured == STREAM_HEAD as u64 {
            self.memory.set_overflowed(self.stream);
            // SAFETY: as in `room_in_head`.
            let head = unsafe { self.memory.head(self.stream) };
            if write_at(file, head, 0) < head.len() {
                self.overflow_file = None;
                return;
            }
        }
        let written = write_at(file, &bytes[..wanted], self.captured);
        if written < wanted {
            self.overflow_file = None;
        }
        self.publish(written);
    }

    /// Makes captured bytes visible to the owner.
    fn publish(&mut self, count: usize) {
        if count > 0 {
            self.captured += count as u64;
            self.memory.publish(self.stream, self.captured);
            if self.memory.is_followed() {
                wake(self.wakeup);
            }
        }
    }
}

/// Returns how many bytes were written: fewer than all if a write fails. The owner shares the file's position, so it
/// is not used.
fn write_at(file: &File, bytes: &[u8], offset: u64) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn appended_text_continues_the_stream() {
        const HEAD: u64 = STREAM_HEAD as u64;
        /// Appends text to a stream of this length, and compares the end of the file and of the head.
        fn check(length: u64, max_captured: u64, size: u64, in_head: &[u8], in_file: &[u8]) {
            let (_, memfd) = OutputMemory::create().unwrap();
            let mut output = WardenOutput::new(memfd, tempfile::tempfile().unwrap().into()).unwrap();
            let file = tempfile::tempfile().unwrap();
            let files = vec![file.try_clone().unwrap().into()];
            output.take_files(vec![StandardStream::Stderr], files);
            let [_, mut stderr] = output.captures(max_captured);
            let mut source = tempfile::tempfile().unwrap();
            source.write_all(&vec![b'.'; length as usize]).unwrap();
            source.rewind().unwrap();
            let mut buffer = vec![0; 1000];
            while stderr.total() < length {
                stderr.read_from(&source, &mut buffer).unwrap();
            }
            stderr.append(b"123");
            stderr.append(b"456");
            let captured = stderr.into_captured();
            assert_eq!(
                (captured.size, captured.truncated),
                (size, size < length + 6),
                "{length} {max_captured}"
            );
            // SAFETY: it is the only reference to this head.
            let head = unsafe { output.memory.head(StandardStream::Stderr) };
            assert!(head[..size.min(HEAD) as usize].ends_with(in_head), "{length}");
            let mut written = Vec::new();
            (&file).rewind().unwrap();
            (&file).read_to_end(&mut written).unwrap();
            let expected = if size > HEAD { size as usize } else { 0 };
            assert_eq!(written.len(), expected, "{length} {max_captured}");
            assert!(written.ends_with(in_file), "{length} {max_captured}");
            output.close_used_files();
            let [_, stderr] = output.captures(1);
            assert_eq!(stderr.overflow_file.is_none(), size > HEAD);
        }
        check(0, u64::MAX, 6, b"123456", b"");
        check(7, 9, 9, b".12", b"");
        check(9, 9, 9, b".", b"");
        check(9, 0, 0, b"", b"");
        check(HEAD - 6, u64::MAX, HEAD, b".123456", b"");
        check(HEAD - 4, u64::MAX, HEAD + 2, b".1234", b".123456");
        check(HEAD - 4, HEAD + 1, HEAD + 1, b".1234", b".12345");
        check(HEAD + 5000, u64::MAX, HEAD + 5006, b".", b".123456");
        check(HEAD + 5000, HEAD + 5001, HEAD + 5001, b".", b".1");
        check(HEAD + 5000, HEAD, HEAD, b".", b"");
    }
}
