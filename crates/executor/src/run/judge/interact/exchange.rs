//! Passes on what the two programs of an interactive case write to each other, until both have ended.
//!
//! A pipe ends when its program ends, often before the end itself is known. So the end of a stream is passed on only when
//! the end of its program is recorded, or after a moment: then the program has closed the stream and goes on. What nobody
//! reads any more is thrown away, so that no program is killed by a broken pipe for what the other one did.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{CapturedOutput, FirstToEnd};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbox::RunHandle;

/// How long the end of a stream is kept back if the end of its program is not known. Far longer than a warden takes to report
/// that, also on a busy machine.
const STREAM_END_DELAY: Duration = Duration::from_secs(1);
/// How long an interactor may take for its messages when the program has failed by itself.
const INTERACTOR_GRACE: Duration = Duration::from_secs(5);
/// How much is read at once.
const READ_AT_ONCE: usize = 64 << 10;
/// How much a pipe can hold when both programs have ended.
const MAX_LEFT: usize = 1 << 20;

/// One of the two programs of an interactive case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Program,
    Interactor,
}

/// The ends of pipes that belong to one program, and the control over its run.
pub(super) struct ExchangeSide {
    pub(super) handle: RunHandle,
    pub(super) to_stdin: PipeWriter,
    pub(super) from_stdout: PipeReader,
    /// How many bytes the program may write.
    pub(super) max_output: Option<u64>,
}

/// The exchange between two programs.
pub(super) struct Exchange {
    handles: [RunHandle; 2],
    /// What the program writes, and what the interactor writes.
    streams: [CrossedStream; 2],
    wakeup: PipeReader,
    /// What was done about the end of a program.
    has_killed: [bool; 2],
    interactor_must_end_at: Option<Instant>,
}

/// What one program writes and the other one reads.
struct CrossedStream {
    writer: Party,
    /// `None` when the stream has ended.
    from: Option<PipeReader>,
    /// `None` when nobody reads any more, or the end was passed on.
    to: Option<PipeWriter>,
    buffer: Vec<u8>,
    /// How many bytes in the buffer were read, and how many of those were passed on.
    filled: usize,
    passed: usize,
    head: Vec<u8>,
    total: u64,
    max_output: Option<u64>,
    /// Whether the other program no longer reads. It may have ended, which is not recorded yet.
    is_broken: bool,
    /// When the end of the stream is passed on although its program has not ended, or the rest of it is thrown away although
    /// the other program has not ended.
    ends_at: Option<Instant>,
}

/// What a program wrote in an exchange.
pub(super) struct ExchangedOutput {
    pub(super) written: CapturedOutput,
    pub(super) exceeds_limit: bool,
}

/// Records the ends of both programs in their order.
pub(super) struct EndRecord {
    state: Mutex<EndRecordState>,
    wakeup: PipeWriter,
}

/// The locked part of an [`EndRecord`].
#[derive(Clone, Copy, Default)]
struct EndRecordState {
    first: Option<Party>,
    /// Whether the program and the interactor have ended, and whether that was a failure.
    ended: [Option<bool>; 2],
}

/// Records the end of a program when it is dropped, also by a panic.
pub(super) struct EndGuard<'a> {
    record: &'a EndRecord,
    party: Party,
    pub(super) is_failure: bool,
}

impl Party {
    fn index(self) -> usize {
        match self {
            Party::Program => 0,
            Party::Interactor => 1,
        }
    }

    fn other(self) -> Party {
        match self {
            Party::Program => Party::Interactor,
            Party::Interactor => Party::Program,
        }
    }
}

impl EndRecord {
    pub(super) fn record_at_end(&self, party: Party) -> EndGuard<'_> {
        EndGuard {
            record: self,
            party,
            is_failure: true,
        }
    }

    pub(super) fn first(&self) -> FirstToEnd {
        match self.state().first {
            Some(Party::Interactor) => FirstToEnd::Interactor,
            Some(Party::Program) | None => FirstToEnd::Submission,
        }
    }

    fn state(&self) -> MutexGuard<'_, EndRecordState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.record.state();
        state.first.get_or_insert(self.party);
        state.ended[self.party.index()] = Some(self.is_failure);
        drop(state);
        // The pipe has room for both ends.
        let _ = (&self.record.wakeup).write(b"e");
    }
}

impl Exchange {
    pub(super) fn new(program: ExchangeSide, interactor: ExchangeSide) -> io::Result<(Exchange, EndRecord)> {
        let (woken, wakeup) = io::pipe()?;
        for end in [woken.as_fd(), wakeup.as_fd()] {
            set_nonblocking(end)?;
        }
        for side in [&program, &interactor] {
            set_nonblocking(side.to_stdin.as_fd())?;
            set_nonblocking(side.from_stdout.as_fd())?;
        }
        let stream = |writer, from, to, max_output| CrossedStream {
            writer,
            from: Some(from),
            to: Some(to),
            buffer: vec![0; READ_AT_ONCE],
            filled: 0,
            passed: 0,
            head: Vec::new(),
            total: 0,
            max_output,
            is_broken: false,
            ends_at: None,
        };
        let exchange = Exchange {
            handles: [program.handle, interactor.handle],
            streams: [
                stream(
                    Party::Program,
                    program.from_stdout,
                    interactor.to_stdin,
                    program.max_output,
                ),
                stream(
                    Party::Interactor,
                    interactor.from_stdout,
                    program.to_stdin,
                    interactor.max_output,
                ),
            ],
            wakeup: woken,
            has_killed: [false; 2],
            interactor_must_end_at: None,
        };
        let record = EndRecord {
            state: Mutex::default(),
            wakeup,
        };
        Ok((exchange, record))
    }

    /// Returns what the program wrote, when both have ended.
    pub(super) fn run(mut self, record: &EndRecord) -> io::Result<ExchangedOutput> {
        loop {
            let ended = record.state().ended;
            if ended.iter().all(Option::is_some) {
                break;
            }
            let now = Instant::now();
            self.react_to_ends(ended, now);
            self.wait_and_pass_on(now)?;
        }
        let [mut program, _] = self.streams;
        program.to = None;
        let mut left = 0;
        while left < MAX_LEFT && program.from.is_some() {
            match program.read()? {
                0 => break,
                count => left += count,
            }
        }
        let exceeds_limit = program.exceeds_limit();
        let size = program.head.len() as u64;
        let written = CapturedOutput {
            truncated: program.total > size,
            ..CapturedOutput::small(program.head)
        };
        Ok(ExchangedOutput {
            written,
            exceeds_limit,
        })
    }

    fn react_to_ends(&mut self, ended: [Option<bool>; 2], now: Instant) {
        let is_failure = |party: Party| ended[party.index()] == Some(true);
        if is_failure(Party::Interactor) {
            self.kill(Party::Program);
        }
        if is_failure(Party::Program) {
            let end = *self.interactor_must_end_at.get_or_insert(now + INTERACTOR_GRACE);
            if end <= now {
                self.kill(Party::Interactor);
            }
        }
        for stream in &mut self.streams {
            stream.react_to_ends(ended, now);
        }
    }

    /// Kills a program once. An error means that its warden is gone, which ends the program as well.
    fn kill(&mut self, party: Party) {
        if !std::mem::replace(&mut self.has_killed[party.index()], true) {
            let _ = self.handles[party.index()].kill();
        }
    }

    /// Waits until something can be read or written, a program has ended, or a stream must end.
    fn wait_and_pass_on(&mut self, now: Instant) -> io::Result<()> {
        let mut wakes_at = self.streams.iter().filter_map(|stream| stream.ends_at).min();
        if !self.has_killed[Party::Interactor.index()] {
            wakes_at = wakes_at.into_iter().chain(self.interactor_must_end_at).min();
        }
        let timeout = wakes_at.map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        let mut descriptors = vec![PollFd::new(self.wakeup.as_fd(), PollFlags::POLLIN)];
        descriptors.extend(self.streams.iter().filter_map(CrossedStream::waits_for));
        match poll(&mut descriptors, timeout) {
            Err(Errno::EINTR) => return Ok(()),
            polled => polled?,
        };
        drop(descriptors);
        // What is not ready returns at once.
        let _ = self.wakeup.read(&mut [0; 8]);
        for stream in &mut self.streams {
            stream.pass_on()?;
            if stream.exceeds_limit() {
                let writer = stream.writer.index();
                if !std::mem::replace(&mut self.has_killed[writer], true) {
                    let _ = self.handles[writer].kill_for_output_limit();
                }
            }
        }
        Ok(())
    }
}

impl CrossedStream {
    fn has_pending(&self) -> bool {
        self.passed < self.filled
    }

    fn exceeds_limit(&self) -> bool {
        self.max_output.is_some_and(|max| self.total > max)
    }

    fn waits_for(&self) -> Option<PollFd<'_>> {
        match (&self.from, &self.to) {
            (_, Some(_)) if self.is_broken => None,
            (_, Some(to)) if self.has_pending() => Some(PollFd::new(to.as_fd(), PollFlags::POLLOUT)),
            (Some(from), _) => Some(PollFd::new(from.as_fd(), PollFlags::POLLIN)),
            (None, _) => None,
        }
    }

    fn react_to_ends(&mut self, ended: [Option<bool>; 2], now: Instant) {
        let has_ended = |party: Party| ended[party.index()].is_some();
        let is_at_end = self.from.is_none() && !self.has_pending();
        if has_ended(self.writer.other()) {
            self.to = None;
        } else if self.to.is_some() && (is_at_end || self.is_broken) {
            let ends_at = *self.ends_at.get_or_insert(now + STREAM_END_DELAY);
            if ends_at <= now || (is_at_end && has_ended(self.writer)) {
                self.to = None;
            }
        }
        if self.to.is_none() {
            self.ends_at = None;
            self.forget_pending();
        }
    }

    /// Reads and writes once, as far as that does not block.
    fn pass_on(&mut self) -> io::Result<()> {
        if self.is_broken && self.to.is_some() {
            return Ok(());
        }
        if !self.has_pending() && self.from.is_some() {
            self.read()?;
        }
        let Some(to) = &mut self.to else {
            return Ok(());
        };
        if self.passed < self.filled {
            match to.write(&self.buffer[self.passed..self.filled]) {
                Ok(count) => self.passed += count,
                Err(error) if is_not_ready(&error) => {}
                Err(_) => self.is_broken = true,
            }
        }
        Ok(())
    }

    fn forget_pending(&mut self) {
        (self.filled, self.passed) = (0, 0);
    }

    /// Reads once. Returns how many bytes there were.
    fn read(&mut self) -> io::Result<usize> {
        let Some(from) = &mut self.from else {
            return Ok(0);
        };
        let read = from.read(&mut self.buffer);
        let count = match read {
            Err(error) if is_not_ready(&error) => return Ok(0),
            read => read?,
        };
        if count == 0 {
            self.from = None;
        }
        (self.filled, self.passed) = (count, 0);
        self.total += count as u64;
        let in_head = count.min(CapturedOutput::MAX_HEAD - self.head.len());
        self.head.extend_from_slice(&self.buffer[..in_head]);
        if self.to.is_none() {
            self.forget_pending();
        }
        Ok(count)
    }
}

fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn set_nonblocking(descriptor: impl AsFd) -> io::Result<()> {
    let flags = fcntl(&descriptor, FcntlArg::F_GETFL)?;
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    fcntl(&descriptor, FcntlArg::F_SETFL(flags))?;
    Ok(())
}
