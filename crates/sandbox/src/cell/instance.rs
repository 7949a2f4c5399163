//! One cell, seen from the warden: the messages of its two processes, and their end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::bare::ResourceUsage;
use super::init::CellContext;
use super::protocol::{CellMessage, ExecRequest, RemainingProcesses};
use super::setup_step::{AtSetupStep, CellSetupError, CellSetupStep};
use crate::platform_error::Errno;
use crate::wire::descriptors;

/// A sandbox for one command, as the warden that created it sees it: its processes and the channels to them. Dropping
/// it kills all its processes and waits until they have ended.
pub(crate) struct Cell {
    pub(super) init: Pid,
    pub(super) streams: UnixStream,
    pub(super) messages: File,
    pub(super) state: CellState,
    /// Whether the stub has executed the program, so that it no longer shares the warden's memory.
    pub(super) has_executed: bool,
    pub(super) failure: Option<CellSetupError>,
    /// Kept as long as the cell has a process, because the stub reads it in shared memory.
    pub(super) exec_request: Option<Box<ExecRequest>>,
    pub(super) context: Option<Box<CellContext>>,
}

/// The state of a cell, from the start of its processes until the warden has reaped them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellState {
    /// Neither process has dropped its privileges yet.
    Starting,
    /// One of the two processes has dropped its privileges.
    OneProcessReady,
    Ready,
    /// Only the init process is left, and it is about to end.
    OnlyInitLeft,
    Reaped,
}

/// What the warden knows about the command of a cell: that it runs, how it ended, or that its end is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandState {
    Running,
    /// The wait status, and the usage of all processes that have ended in the cell.
    Ended(i32, ResourceUsage),
    /// The init process ended without reporting the end of the command.
    Unknown,
}

impl Cell {
    /// Waits until both processes have dropped their privileges.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), CellSetupError> {
        loop {
            let command_state = self.read_messages();
            match (self.failure, self.state) {
                (Some(failure), _) => return Err(failure),
                (None, CellState::Ready) => return Ok(()),
                (None, _) if command_state == CommandState::Running => {}
                (None, _) => return Err(Errno(libc::EPIPE)).at(CellSetupStep::Communicate),
            }
            let mut messages = [PollFd::new(self.messages.as_fd(), PollFlags::POLLIN)];
            match poll(&mut messages, PollTimeout::NONE) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno).at(CellSetupStep::Communicate),
            }
        }
    }

    /// Makes the stub execute the command.
    pub(crate) fn execute(
        &mut self,
        exec_request: ExecRequest,
        streams: [BorrowedFd<'_>; 3],
    ) -> Result<(), CellSetupError> {
        let exec_request = self.exec_request.insert(Box::new(exec_request));
        if let Some(context) = &self.context {
            context
                .exec_request
                .store(&raw mut **exec_request, Ordering::Release);
        }
        const GO: [u8; 1] = [0];
        descriptors::send(&self.streams, &GO, &streams).at(CellSetupStep::ReceiveExecRequest)
    }

    /// Readable when there is a message, for example about the end of the command.
    pub(crate) fn message_descriptor(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }

    /// Becomes ready when the stub has executed the program or failed to. Only the stub has the other end, and the
    /// kernel closes it after the process has left the warden's memory.
    pub(crate) fn exec_descriptor(&self) -> Option<PollFd<'_>> {
        (!self.has_executed).then(|| PollFd::new(self.streams.as_fd(), PollFlags::POLLIN))
    }

    pub(crate) fn has_executed(&self) -> bool {
        self.has_executed
    }

    /// Returns true once, when the stub has left the warden's memory.
    pub(crate) fn check_executed(&mut self) -> bool {
        let Some(exec_descriptor) = self.exec_descriptor() else {
            return false;
        };
        let mut exec_descriptor = [exec_descriptor];
        self.has_executed = matches!(poll(&mut exec_descriptor, PollTimeout::ZERO), Ok(1..));
        self.has_executed
    }

    /// Reads all messages that have arrived.
    pub(crate) fn read_messages(&mut self) -> CommandState {
        let mut message = [0; CellMessage::SIZE];
        loop {
            match self.messages.read_exact(&mut message) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return CommandState::Running,
                Err(_) => return CommandState::Unknown,
            }
            match CellMessage::decode(message) {
                Some(CellMessage::Ready) => {
                    self.state = match self.state {
                        CellState::Starting => CellState::OneProcessReady,
                        _ => CellState::Ready,
                    }
                }
                Some(CellMessage::Failed(error)) => self.failure = Some(error),
                Some(CellMessage::CommandEnded {
                    status,
                    remaining,
                    used,
                }) => {
                    if remaining == RemainingProcesses::None {
                        self.state = CellState::OnlyInitLeft;
                    }
                    return CommandState::Ended(status, used);
                }
                None => return CommandState::Unknown,
            }
        }
    }

    pub(super) fn is_reaped(&mut self) -> bool {
        if let Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) =
            waitpid(self.init, Some(WaitPidFlag::WNOHANG))
        {
            self.state = CellState::Reaped;
        }
        self.state == CellState::Reaped
    }

    /// The kernel lets init be reaped only when all others have ended. After that, its process id may be reused.
    pub(super) fn kill(&mut self) {
        if self.state != CellState::Reaped {
            // An error means that it has already ended.
            let _ = kill(self.init, Signal::SIGKILL);
            while waitpid(self.init, None) == Err(nix::errno::Errno::EINTR) {}
            self.state = CellState::Reaped;
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
    }
}
