//! The warden process: it receives a request from its owner, runs the command, responds, and waits for the next
//! request.
//!
//! It has one thread, no locks and little memory: starting a process costs in proportion to the parent's memory, and
//! only a single-threaded process may share its memory with a child before exec.
//!
//! A run without a cell goes through these modules: `run_process_tree` prepares it (`streams`, `capture`, `resolve`) and starts
//! it (`spawn`, `child`), `watch` waits for its end (`owner_messages`, `sample`), `kill_descendants` kills what is
//! left (`reap`, `process_table`), and `end_reason` decides why it ended. `run_in_cell` is the same for a cell.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cell::{CellFactory, CommandAffinity, FileAllocation};
use crate::cpu::{CpuNumber, pin_process};
use crate::launch::CommandIsolation;
use crate::open_beneath::OpenPurpose;
use crate::outcome::CommandOutcome;
use crate::platform_error::{Errno, PlatformError};
use crate::wire::descriptors::{self, DescriptorReceiver};
use crate::wire::{self, AfterRun, WardenRequest, WardenResponse};
use error_causes::with_causes;

mod setup;
pub(crate) mod signals;

mod run_in_cell;
mod run_process_tree;

mod capture;

pub(crate) mod c_strings;
pub(crate) mod resolve;
mod streams;

pub(crate) mod child;
mod spawn;

mod owner_messages;
mod sample;
mod watch;

mod kill_descendants;
mod process_table;
mod reap;

mod end_reason;
mod own_memory;

use capture::WardenOutput;
use owner_messages::OwnerMessages;
use run_in_cell::CellRunner;
use run_process_tree::{
    CommandRunFailure, OwnerConnection, ProcessTreeRunner, RunRequest, outcome_without_start,
};
use setup::WardenSetupError;

/// Serves as a warden until the owner, at the other end of standard input, is gone. Must be called first in a process
/// that was started for it: it closes all descriptors except the standard ones and takes over all signals.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The owner only sees that the warden is gone, so the reason goes to stderr.
            let _ = writeln!(io::stderr(), "conclave warden: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// Why a warden process stops serving its owner and ends.
#[derive(Debug, thiserror::Error)]
enum WardenServeError {
    #[error("cannot set up the warden")]
    Setup(#[from] WardenSetupError),
    #[error("cannot receive a request from the owner")]
    Receive(#[source] io::Error),
    #[error("the owner did not send a hello with its descriptors; was this process started by hand?")]
    Hello,
    #[error("cannot map the memory for the output of commands")]
    MapOutput(#[source] io::Error),
    #[error("cannot wait for the owner")]
    Wait(#[source] io::Error),
}

fn serve() -> Result<(), WardenServeError> {
    let socket = setup::become_warden()?;
    let mut buffer = Vec::new();
    let OwnerHello {
        isolation,
        cpu,
        urgent_socket,
        output,
        lock,
    } = receive_hello(&socket, &mut buffer)?;
    let mut messages = OwnerMessages::new(urgent_socket);
    // All processes that this one starts inherit it.
    if let Some(Err(error)) = cpu.map(pin_process) {
        let _ = wire::send(&socket, &WardenResponse::Failed(error), &mut buffer);
        return Ok(());
    }
    let affinity = cpu.map_or(CommandAffinity::Free, |_| CommandAffinity::Fixed);
    let mut command_runner = match isolation {
        CommandIsolation::None => CommandRunner::ProcessTree {
            runner: ProcessTreeRunner::new(setup::process_table()?),
            _lock: lock,
        },
        CommandIsolation::Cell(settings) => match CellFactory::set_up(&settings, affinity, lock, || {
            request_id_mapping(&socket, &mut buffer).map_err(Errno::from)
        }) {
            Ok(cell_factory) => CommandRunner::Cell(CellRunner::new(cell_factory)),
            Err(error) => {
                let _ = wire::send(&socket, &WardenResponse::Failed(error), &mut buffer);
                return Ok(());
            }
        },
    };
    if send_response(
        &socket,
        command_runner
            .task_folder()
            .map(|folder| (WardenResponse::Ready, folder)),
        &mut buffer,
    )
    .is_err()
    {
        return Ok(());
    }
    loop {
        wait_for_owner(&socket, &mut messages)?;
        let mut after_run = AfterRun::KeepTask;
        let mut receiver = DescriptorReceiver::new(&socket);
        let request = match wire::receive(&mut receiver, &mut buffer) {
            // The connection ends like this if the owner had not read our last response.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            request => request.map_err(WardenServeError::Receive)?,
        };
        let response = match request {
            Some(WardenRequest::Run {
                number,
                spec,
                attachments,
                after,
            }) => {
                let owner = OwnerConnection {
                    socket: &socket,
                    messages: &mut messages,
                };
                let streams = attachments.assign(receiver.descriptors);
                let ended = streams.map_err(CommandRunFailure::from).and_then(|streams| {
                    let request = RunRequest {
                        number,
                        spec,
                        streams,
                    };
                    command_runner.run_command(owner, request, &output)
                });
                messages.forget_kills_up_to(number);
                match ended {
                    Ok(outcome) => {
                        after_run = after;
                        Ok((WardenResponse::Ended(outcome), None))
                    }
                    Err(CommandRunFailure::Platform(error)) => Err(error),
                    Err(CommandRunFailure::OwnerGone) => return Ok(()),
                }
            }
            Some(WardenRequest::SetTaskSpace { bytes }) => command_runner
                .set_task_space(bytes)
                .map(|()| (WardenResponse::Ready, None)),
            Some(WardenRequest::AllocateFiles { files }) => command_runner
                .allocate_files(&files)
                .map(|()| (WardenResponse::Ready, None)),
            Some(WardenRequest::OpenInWorkspace { path, purpose }) => {
                command_runner.open_in_workspace(&path, purpose)
            }
            Some(WardenRequest::ResetForNextTask) => command_runner.reset_for_next_task(),
            Some(WardenRequest::Hello { .. } | WardenRequest::IdsMapped) => {
                return Err(WardenServeError::Hello);
            }
            None => return Ok(()),
        };
        // If the owner is gone, there is nothing left to do: the command has ended and is cleaned up.
        if send_response(&socket, response, &mut buffer).is_err() {
            return Ok(());
        }
        if after_run == AfterRun::ResetForNextTask
            && send_response(&socket, command_runner.reset_for_next_task(), &mut buffer).is_err()
        {
            return Ok(());
        }
    }
}

/// The part of a warden that runs commands: in cells, or without them as process trees.
#[allow(clippy::large_enum_variant, reason = "there is one in each process")]
enum CommandRunner {
    ProcessTree {
        runner: ProcessTreeRunner,
        /// Never used: it only has to stay open until the process ends.
        _lock: Option<OwnedFd>,
    },
    Cell(CellRunner),
}

impl CommandRunner {
    fn run_command(
        &mut self,
        owner: OwnerConnection<'_>,
        request: RunRequest,
        output: &WardenOutput,
    ) -> Result<CommandOutcome, CommandRunFailure> {
        if let Some(reason) = owner.messages.stop_reason(request.number) {
            return Ok(outcome_without_start(reason));
        }
        let captures = output.captures(request.spec.max_captured(), owner.socket);
        match self {
            Self::ProcessTree { runner, .. } => runner.run_command(owner, request, captures),
            Self::Cell(runner) => runner.run_command(owner, request, captures),
        }
    }

    fn set_task_space(&self, bytes: u64) -> Result<(), PlatformError> {
        match self {
            Self::ProcessTree { .. } => Ok(()),
            Self::Cell(runner) => Ok(runner.cell_factory.set_task_space(bytes)?),
        }
    }

    fn allocate_files(&mut self, files: &[FileAllocation]) -> Result<(), PlatformError> {
        match self {
            Self::ProcessTree { .. } => Ok(()),
            Self::Cell(runner) => runner.cell_factory.allocate_files(files),
        }
    }

    fn open_in_workspace(
        &self,
        path: &Path,
        purpose: OpenPurpose,
    ) -> Result<(WardenResponse, Option<OwnedFd>), PlatformError> {
        let opened = match self {
            Self::ProcessTree { .. } => Err(Errno(libc::EACCES)),
            Self::Cell(runner) => runner.cell_factory.open_in_workspace(path, purpose)?,
        };
        Ok(match opened {
            Ok(file) => (WardenResponse::Opened, Some(file)),
            Err(errno) => (WardenResponse::NotOpened(errno), None),
        })
    }

    /// Prepares for the next task.
    fn reset_for_next_task(&mut self) -> Result<(WardenResponse, Option<OwnedFd>), PlatformError> {
        if let Self::Cell(runner) = self {
            runner.cell_factory.reset_for_next_task()?;
        }
        Ok((WardenResponse::Ready, self.task_folder()?))
    }

    /// The folder for the task's files, if commands run in cells.
    fn task_folder(&self) -> Result<Option<OwnedFd>, PlatformError> {
        match self {
            Self::ProcessTree { .. } => Ok(None),
            Self::Cell(runner) => Ok(Some(runner.cell_factory.task_folder()?)),
        }
    }
}

fn send_response(
    socket: &UnixStream,
    response: Result<(WardenResponse, Option<OwnedFd>), PlatformError>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    match response {
        Ok((response_frame, None)) => wire::send(socket, &response_frame, buffer),
        Ok((response_frame, Some(descriptor))) => {
            wire::encode(&response_frame, buffer)?;
            descriptors::send(socket, buffer, &[descriptor.as_fd()])
        }
        Err(error) => wire::send(socket, &WardenResponse::Failed(error), buffer),
    }
}

/// The content of the first request that a warden gets from its owner.
struct OwnerHello {
    isolation: CommandIsolation,
    cpu: Option<CpuNumber>,
    urgent_socket: OwnedFd,
    output: WardenOutput,
    lock: Option<OwnedFd>,
}

fn receive_hello(socket: &UnixStream, buffer: &mut Vec<u8>) -> Result<OwnerHello, WardenServeError> {
    let mut receiver = DescriptorReceiver::new(socket);
    let (isolation, cpu) = match wire::receive(&mut receiver, buffer).map_err(WardenServeError::Receive)? {
        Some(WardenRequest::<()>::Hello { isolation, cpu }) => (isolation, cpu),
        _ => return Err(WardenServeError::Hello),
    };
    let mut descriptors = receiver.descriptors.into_iter();
    let mut next = || descriptors.next().ok_or(WardenServeError::Hello);
    let (urgent_socket, memfd, wakeup) = (next()?, next()?, next()?);
    Ok(OwnerHello {
        isolation,
        cpu,
        urgent_socket,
        output: WardenOutput::new(memfd, wakeup).map_err(WardenServeError::MapOutput)?,
        lock: descriptors.next(),
    })
}

fn request_id_mapping(socket: &UnixStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    wire::send(socket, &WardenResponse::NeedsIdMapping, buffer)?;
    match wire::receive(socket, buffer)? {
        Some(WardenRequest::<()>::IdsMapped) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EPROTO)),
    }
}

/// Waits until a request, or the end of the connection, can be read. Urgent messages are received meanwhile and once
/// more at the end, so that messages sent before a request are handled before it.
fn wait_for_owner(socket: &UnixStream, messages: &mut OwnerMessages) -> Result<(), WardenServeError> {
    loop {
        let mut ready = [socket.as_fd(), messages.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(WardenServeError::Wait(errno.into())),
        }
        let [request, message] = ready.map(|fd| fd.any() == Some(true));
        if message && messages.receive_pending().is_err() {
            return Ok(());
        }
        if request {
            return Ok(());
        }
    }
}
