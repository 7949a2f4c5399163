//! The standard streams of a command.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::pipe2;

use super::capture::StreamCapture;
use super::signals;
use crate::outcome::CapturedStream;
use crate::passed_streams::PassedStreams;
use crate::platform_error::PlatformError;
use crate::spec::CommandInput;

/// The buffer for output that is not captured, for all runs of a warden.
pub(super) fn new_scratch_buffer() -> Vec<u8> {
    const SIZE: usize = 64 << 10;
    vec![0; SIZE]
}

/// The standard input of a command, and its standard output if the owner has passed one. Dropped as soon as the command has
/// started: a copy that stays open here would keep the other end of a pipe from noticing the end of the command.
pub(super) struct GivenStreams {
    input: OwnedFd,
    stdout: Option<OwnedFd>,
}

impl GivenStreams {
    pub(super) fn open(input: CommandInput, passed: PassedStreams) -> Result<Self, PlatformError> {
        Ok(Self {
            input: match passed.stdin {
                Some(stdin) => stdin,
                None => open_input(input)?,
            },
            stdout: passed.stdout,
        })
    }

    /// The three streams of the command. If the owner has passed its standard output, the pipe for it stays unused: nothing
    /// comes through it, and nothing waits for it.
    pub(super) fn with_outputs<'a>(&'a self, outputs: &'a [OutputPipe<'_>; 2]) -> [BorrowedFd<'a>; 3] {
        let [stdout, stderr] = outputs.each_ref().map(OutputPipe::writing_end);
        let stdout = self.stdout.as_ref().map_or(stdout, AsFd::as_fd);
        [self.input.as_fd(), stdout, stderr]
    }
}

/// Opens the input of a command. It is opened anew for each run, even if it is empty: the next command would find the
/// flags and locks that a command sets on it.
fn open_input(input: CommandInput) -> Result<OwnedFd, PlatformError> {
    match input {
        CommandInput::Bytes(bytes) if bytes.is_empty() => {
            open_with(Path::new("/dev/null"), |path| File::open(path))
        }
        // A file in memory instead of a pipe: nothing has to write to it while the command runs, and a command that
        // does not read it blocks nothing.
        CommandInput::Bytes(bytes) => {
            let memfd = memfd_create(c"input", MFdFlags::MFD_CLOEXEC)
                .map_err(|e| PlatformError::CopyInput(e.into()))?;
            let mut file = File::from(memfd);
            file.write_all(&bytes)
                .map_err(|e| PlatformError::CopyInput(e.into()))?;
            file.rewind().map_err(|e| PlatformError::CopyInput(e.into()))?;
            Ok(file.into())
        }
        CommandInput::File(path) => open_with(&path, open_regular_file),
    }
}

fn open_with(path: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<OwnedFd, PlatformError> {
    let opened = open(path).map_err(|error| PlatformError::OpenInput {
        path: path.into(),
        errno: error.into(),
    });
    Ok(opened?.into())
}

/// Opens only a regular file. An earlier command may have replaced it: opening a FIFO would block forever, and a
/// symbolic link may lead anywhere.
fn open_regular_file(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// The pipe from which the warden reads a command's stdout or stderr, and the capture of what comes through it.
///
/// The writing end stays open here while the command runs. Otherwise the pipe would report a hang-up just before each
/// process ends, and wake the warden twice for each run.
pub(super) struct OutputPipe<'a> {
    reading: File,
    writing: OwnedFd,
    capture: StreamCapture<'a>,
}

impl<'a> OutputPipe<'a> {
    /// Creates a new pipe for each run: a process to which an earlier command passed an old one could still hold it.
    pub(super) fn open(capture: StreamCapture<'a>) -> Result<Self, PlatformError> {
        let (reading, writing) = pipe2(OFlag::O_CLOEXEC).map_err(|e| PlatformError::Pipe(e.into()))?;
        // Only our end is non-blocking, which does not affect the command. A command of the same user can open the
        // pipe for reading through /proc and take the bytes first; then a blocking read would wait forever.
        fcntl(&reading, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| PlatformError::Pipe(e.into()))?;
        // A command of another user can open `/dev/stdout` for writing, but not for reading.
        let writable = Mode::S_IWUSR | Mode::S_IWGRP | Mode::S_IWOTH;
        fchmod(&writing, writable).map_err(|e| PlatformError::Pipe(e.into()))?;
        Ok(Self {
            reading: reading.into(),
            writing,
            capture,
        })
    }

    fn writing_end(&self) -> BorrowedFd<'_> {
        self.writing.as_fd()
    }

    pub(super) fn poll(&self) -> PollFd<'_> {
        let events = match self.capture.is_handed_over() {
            true => PollFlags::empty(),
            false => PollFlags::POLLIN,
        };
        PollFd::new(self.reading.as_fd(), events)
    }

    /// All bytes that the warden has read.
    pub(super) fn total(&self) -> u64 {
        self.capture.total()
    }

    /// Reads once. Bytes beyond the maximum are read too, because a full pipe would block the command.
    pub(super) fn read_available(&mut self, scratch: &mut [u8]) {
        // This fails only if it is interrupted, and then the next round reads the bytes, or if another process took
        // them first, or if the owner is gone.
        let _ = self.capture.read_from(&self.reading, scratch);
    }

    pub(super) fn append(&mut self, text: &[u8]) {
        self.capture.append(text);
    }

    pub(super) fn into_captured(self) -> CapturedStream {
        self.capture.into_captured()
    }
}

/// Reads what is left in the pipes after the command has ended. The number of rounds is limited, because a process
/// outside the command may have the writing end and write forever.
pub(super) fn drain(outputs: &mut [OutputPipe<'_>; 2], scratch: &mut [u8]) {
    // A pipe holds at most a mebibyte unless its user is privileged.
    const ROUNDS: usize = 64;
    for _ in 0..ROUNDS {
        let mut descriptors = outputs.each_ref().map(OutputPipe::poll);
        if signals::wait(&mut descriptors, Some(std::time::Duration::ZERO)).is_err() {
            return;
        }
        let ready = descriptors.map(|fd| is_readable(&fd));
        if ready == [false, false] {
            return;
        }
        for (output, ready) in outputs.iter_mut().zip(ready) {
            if ready {
                output.read_available(scratch);
            }
        }
    }
}

/// After an interrupted wait, the kernel leaves the results unchanged: no events.
pub(super) fn is_readable(fd: &PollFd<'_>) -> bool {
    fd.revents()
        .is_some_and(|events| events.contains(PollFlags::POLLIN))
}
