//! The three standard streams of a command.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::pipe2;

use super::signals;
use crate::fault::Fault;
use crate::outcome::Captured;
use crate::spec::Input;

/// What output passes through on its way, for all runs of a warden.
pub(super) fn scratch() -> Vec<u8> {
    const SIZE: usize = 64 << 10;
    vec![0; SIZE]
}

/// Opens what the command reads. Anew for each run, be it nothing: the flags and locks that a command puts on what it
/// was handed would be there for the next one to find.
pub(super) fn open_input(input: Input) -> Result<OwnedFd, Fault> {
    match input {
        Input::Bytes(bytes) if bytes.is_empty() => open_at(Path::new("/dev/null"), |path| File::open(path)),
        // A file in memory rather than a pipe: nobody has to feed it while the command runs, and a command that
        // does not read it cannot hold anyone up.
        Input::Bytes(bytes) => {
            let memfd =
                memfd_create(c"input", MFdFlags::MFD_CLOEXEC).map_err(|e| Fault::HoldInput(e.into()))?;
            let mut file = File::from(memfd);
            file.write_all(&bytes).map_err(|e| Fault::HoldInput(e.into()))?;
            file.rewind().map_err(|e| Fault::HoldInput(e.into()))?;
            Ok(file.into())
        }
        Input::File(path) => open_at(&path, open_plain),
    }
}

fn open_at(path: &Path, open: impl FnOnce(&Path) -> io::Result<File>) -> Result<OwnedFd, Fault> {
    let opened = open(path).map_err(|error| Fault::OpenInput {
        path: path.into(),
        errno: error.into(),
    });
    Ok(opened?.into())
}

/// An earlier command may have put something else in its place: to open a pipe would wait for ever, and a link may
/// lead anywhere.
fn open_plain(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// One output stream: a pipe, and the first bytes that came through it.
///
/// The writing end stays open here while the command runs. Otherwise the pipe would report a hang-up just
/// before every end of a process, and wake us twice for each run.
pub(super) struct Output {
    reading: File,
    writing: OwnedFd,
    kept: Vec<u8>,
    keep: u64,
    total: u64,
}

impl Output {
    /// A new pipe for each run: one used again could still be held by somebody to whom an earlier command
    /// passed it.
    pub(super) fn open(keep: u64) -> Result<Self, Fault> {
        let (reading, writing) = pipe2(OFlag::O_CLOEXEC).map_err(|e| Fault::Pipe(e.into()))?;
        // Our end alone, which is no concern of the command. A command of our own user can open the pipe for reading
        // by its name in /proc, and take what was there to be read: whoever waited for that would wait for ever.
        fcntl(&reading, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| Fault::Pipe(e.into()))?;
        // So that `/dev/stdout` can be opened by a command of another user, to write and not to read.
        let writable = Mode::S_IWUSR | Mode::S_IWGRP | Mode::S_IWOTH;
        fchmod(&writing, writable).map_err(|e| Fault::Pipe(e.into()))?;
        Ok(Self {
            reading: reading.into(),
            writing,
            kept: Vec::new(),
            keep,
            total: 0,
        })
    }

    pub(super) fn writing(&self) -> BorrowedFd<'_> {
        self.writing.as_fd()
    }

    pub(super) fn poll(&self) -> PollFd<'_> {
        PollFd::new(self.reading.as_fd(), PollFlags::POLLIN)
    }

    /// All bytes written, kept or not.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Reads once, what there is. What goes beyond `keep` is read too, because a full pipe would stop the command.
    pub(super) fn pull(&mut self, scratch: &mut [u8]) {
        // Reading from a pipe of our own fails only by interruption, and then the next round reads it, or because
        // somebody else has been faster.
        let Ok(count) = self.reading.read(scratch) else {
            return;
        };
        self.total += count as u64;
        let room = self.keep.saturating_sub(self.kept.len() as u64);
        let wanted = usize::try_from(room).map_or(count, |room| room.min(count));
        self.kept.extend_from_slice(&scratch[..wanted]);
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.total += text.len() as u64;
        let room = usize::try_from(self.keep)
            .unwrap_or(usize::MAX)
            .saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&text[..room.min(text.len())]);
    }

    pub(super) fn into_captured(self) -> Captured {
        Captured {
            truncated: self.total > self.kept.len() as u64,
            bytes: self.kept,
        }
    }
}

/// Takes what is still in the pipes once the command is over. Bounded, because a process outside the command
/// may have been passed the writing end and write for ever.
pub(super) fn drain(outputs: &mut [Output; 2], scratch: &mut [u8]) {
    // A pipe holds at most a mebibyte unless its user is privileged.
    const ROUNDS: usize = 64;
    for _ in 0..ROUNDS {
        let mut descriptors = outputs.each_ref().map(Output::poll);
        if signals::wait(&mut descriptors, Some(std::time::Duration::ZERO)).is_err() {
            return;
        }
        let ready = descriptors.map(|fd| is_readable(&fd));
        if ready == [false, false] {
            return;
        }
        for (output, ready) in outputs.iter_mut().zip(ready) {
            if ready {
                output.pull(scratch);
            }
        }
    }
}

/// After an interrupted wait the kernel leaves the answers as they were: none.
pub(super) fn is_readable(fd: &PollFd<'_>) -> bool {
    fd.revents()
        .is_some_and(|events| events.contains(PollFlags::POLLIN))
}
