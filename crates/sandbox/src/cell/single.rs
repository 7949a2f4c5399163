//! One cell, as the warden sees it: what its two processes say, and their end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::bare::Used;
use super::init::Desk;
use super::orders::{Company, Orders, Word};
use super::step::{At, Step, StepError};
use crate::fault::Errno;
use crate::wire::rights;

/// One cell, for one command. Dropping it ends all its processes and waits for their end.
pub(crate) struct Cell {
    pub(super) init: Pid,
    pub(super) streams: UnixStream,
    pub(super) words: File,
    pub(super) stage: Stage,
    /// Whether the command's process is known to share nothing with the warden any more.
    pub(super) has_begun: bool,
    pub(super) failed: Option<StepError>,
    /// For as long as there is a process in the cell, whom they are for.
    pub(super) orders: Option<Box<Orders>>,
    pub(super) desk: Option<Box<Desk>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Neither process has given up all power yet.
    Starting,
    /// One of them has.
    HalfParked,
    Parked,
    /// Only the first process is left, and that is about to end.
    Deserted,
    Gone,
}

/// What is known of the command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    NotYet,
    /// As `wait` gives it, and what all that have ended in the cell have used.
    With(i32, Used),
    /// The cell's first process is gone and has not said.
    Unknown,
}

impl Cell {
    /// Waits until it has given up all power.
    pub(super) fn park(&mut self) -> Result<(), StepError> {
        loop {
            let heard = self.listen();
            match (self.failed, self.stage) {
                (Some(failed), _) => return Err(failed),
                (None, Stage::Parked) => return Ok(()),
                (None, _) if heard == Ended::NotYet => {}
                (None, _) => return Err(Errno(libc::EPIPE)).at(Step::Talk),
            }
            let mut words = [PollFd::new(self.words.as_fd(), PollFlags::POLLIN)];
            match poll(&mut words, PollTimeout::NONE) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno).at(Step::Talk),
            }
        }
    }

    /// Starts the command.
    pub(crate) fn order(&mut self, orders: Orders, streams: [BorrowedFd<'_>; 3]) -> Result<(), StepError> {
        let orders = self.orders.insert(Box::new(orders));
        if let Some(desk) = &self.desk {
            desk.orders.store(&raw mut **orders, Ordering::Release);
        }
        const GO: [u8; 1] = [0];
        rights::send(&self.streams, &GO, &streams).at(Step::Orders)
    }

    /// Readable when there is news of the command's end.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }

    /// Ready when the command has begun: it has executed its program, or has failed to. Nobody else has the other end,
    /// and the kernel closes it after the process has left the warden's memory.
    pub(crate) fn beginning(&self) -> Option<PollFd<'_>> {
        (!self.has_begun).then(|| PollFd::new(self.streams.as_fd(), PollFlags::POLLIN))
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// True once.
    pub(crate) fn has_just_begun(&mut self) -> bool {
        let Some(beginning) = self.beginning() else {
            return false;
        };
        let mut beginning = [beginning];
        self.has_begun = matches!(poll(&mut beginning, PollTimeout::ZERO), Ok(1..));
        self.has_begun
    }

    /// Takes in what was said.
    pub(crate) fn listen(&mut self) -> Ended {
        let mut word = [0; Word::SIZE];
        loop {
            match self.words.read_exact(&mut word) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ended::NotYet,
                Err(_) => return Ended::Unknown,
            }
            match Word::decode(word) {
                Some(Word::Parked) => {
                    self.stage = match self.stage {
                        Stage::Starting => Stage::HalfParked,
                        _ => Stage::Parked,
                    }
                }
                Some(Word::Failed(error)) => self.failed = Some(error),
                Some(Word::Ended {
                    status,
                    company,
                    used,
                }) => {
                    if company == Company::Nobody {
                        self.stage = Stage::Deserted;
                    }
                    return Ended::With(status, used);
                }
                None => return Ended::Unknown,
            }
        }
    }

    pub(super) fn is_gone(&mut self) -> bool {
        if let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
            waitpid(self.init, Some(WaitPidFlag::WNOHANG))
        {
            self.stage = Stage::Gone;
        }
        self.stage == Stage::Gone
    }

    /// The kernel lets the first process be reaped when all others are gone. Then its number may be another's.
    pub(super) fn kill(&mut self) {
        if self.stage != Stage::Gone {
            // An error means that it has ended by itself.
            let _ = kill(self.init, Signal::SIGKILL);
            while waitpid(self.init, None) == Err(nix::errno::Errno::EINTR) {}
            self.stage = Stage::Gone;
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
    }
}
