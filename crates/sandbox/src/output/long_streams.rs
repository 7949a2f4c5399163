//! Reads the output streams of a run that are longer than their heads, and writes them to files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{OwnerOutput, STREAM_HEAD, StandardStream};
use crate::outcome::{CommandEndReason, CommandOutcome};
use crate::spec::CommandSpec;

/// The streams of one run whose pipes a warden has handed over to its owner, because they are longer than their heads.
/// The thread that waits for the outcome reads them. If it waits for a disk, the command finds its pipe full, and
/// the warden still ends it in time.
pub(crate) struct LongStreams<'a> {
    output: &'a OwnerOutput,
    max_captured: u64,
    /// The limit of each stream.
    limit: Option<u64>,
    streams: [Option<LongStream>; 2],
    buffer: Vec<u8>,
}

/// The pipe of an output stream that is longer than its head, on the side of the warden's owner.
struct LongStream {
    /// `None` when no process can write to it any more. Its reads do not block.
    pipe: Option<File>,
    /// All bytes written, captured or not.
    total: u64,
}

impl<'a> LongStreams<'a> {
    pub(crate) fn new(output: &'a OwnerOutput, spec: &CommandSpec) -> Self {
        Self {
            output,
            max_captured: spec.max_captured(),
            limit: spec.limits.output,
            streams: [None, None],
            buffer: Vec::new(),
        }
    }

    /// Takes over the pipe of a stream whose head is full.
    pub(crate) fn add(&mut self, stream: StandardStream, pipe: OwnedFd) {
        const BUFFER: usize = 64 << 10;
        self.buffer.resize(BUFFER, 0);
        self.output.begin_file(stream);
        self.streams[stream.index()] = Some(LongStream {
            pipe: Some(pipe.into()),
            total: STREAM_HEAD as u64,
        });
    }

    /// Waits for the warden's socket and the pipes, reads each pipe at most once, and returns whether the socket can be
    /// read. Without pipes it returns at once: then a read of the socket waits as well.
    pub(crate) fn wait_and_read(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let pipes = || StandardStream::BOTH.into_iter().zip(&self.streams);
        let pipes = pipes().filter_map(|(stream, long)| Some((stream, long.as_ref()?.pipe.as_ref()?)));
        let (streams, pipes): (Vec<_>, Vec<_>) = pipes.unzip();
        if pipes.is_empty() {
            return Ok(true);
        }
        let descriptors = std::iter::once(socket.as_fd()).chain(pipes.iter().map(|pipe| pipe.as_fd()));
        let mut descriptors: Vec<_> = descriptors.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut descriptors, PollTimeout::NONE) {
            Err(Errno::EINTR) => return Ok(false),
            polled => polled?,
        };
        let ready: Vec<_> = descriptors.iter().map(|fd| fd.any() == Some(true)).collect();
        for (stream, ready) in streams.into_iter().zip(&ready[1..]) {
            if *ready {
                self.read_once(stream);
            }
        }
        Ok(ready[0])
    }

    /// Whether a stream is longer than its limit.
    pub(crate) fn exceed_limit(&self) -> bool {
        let mut totals = self.streams.iter().flatten().map(|long| long.total);
        self.limit.is_some_and(|limit| totals.any(|total| total > limit))
    }

    /// Adds the captured bytes to an outcome. No process of the command is left, but there may be bytes in the pipes.
    pub(crate) fn complete(mut self, outcome: &mut CommandOutcome) -> io::Result<()> {
        for stream in StandardStream::BOTH {
            self.drain(stream);
            let captured = match stream {
                StandardStream::Stdout => &mut outcome.stdout,
                StandardStream::Stderr => &mut outcome.stderr,
            };
            self.output.complete(stream, captured);
            if let Some(long) = &self.streams[stream.index()] {
                self.output.complete_long(stream, long.total, captured)?;
            }
        }
        // The warden has not seen these bytes. It decides in this order as well.
        let has_other_reason = !matches!(
            outcome.reason,
            CommandEndReason::Exited | CommandEndReason::Signalled | CommandEndReason::DiskLimit
        );
        if self.exceed_limit() && !has_other_reason {
            outcome.reason = CommandEndReason::OutputLimit;
        }
        Ok(())
    }

    /// Reads what is left in a pipe.
    fn drain(&mut self, stream: StandardStream) {
        // A process outside the command may have the writing end and write forever. A pipe holds at most a mebibyte
        // unless its user is privileged.
        const MAX_DRAINED: usize = 4 << 20;
        let mut drained = 0;
        while drained < MAX_DRAINED {
            match self.read_once(stream) {
                0 => return,
                count => drained += count,
            }
        }
    }

    /// Reads at most once from a pipe and writes what is still wanted to the file. Returns how many bytes were read.
    fn read_once(&mut self, stream: StandardStream) -> usize {
        let Some(long) = &mut self.streams[stream.index()] else {
            return 0;
        };
        let Some(mut pipe) = long.pipe.as_ref() else {
            return 0;
        };
        let count = match pipe.read(&mut self.buffer) {
            Ok(count) => count,
            // There is nothing to read: a process of the same user can take the bytes first.
            Err(_) => return 0,
        };
        if count == 0 {
            long.pipe = None;
        }
        let wanted = usize::try_from(self.max_captured.saturating_sub(long.total)).unwrap_or(usize::MAX);
        long.total += count as u64;
        self.output.append(stream, &self.buffer[..count.min(wanted)]);
        count
    }
}
