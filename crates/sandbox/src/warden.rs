//! The warden process: takes a request from its owner, runs the command, answers, and again.
//!
//! One thread, no locks, few pages: starting a process costs in proportion to what the parent holds, and only
//! a process of one thread may share its memory with a child that has yet to exec.
//!
//! The walk of a run: `run_command` prepares (`streams`, `resolve`), starts (`spawn`, `child`), looks on
//! (`watch`, `urgent`, `sample`), ends what is left (`reap`, `tree`, `destroy`) and says how it ended (`verdict`).

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cell::{Cells, FileSize};
use crate::fault::{Errno, Fault, with_causes};
use crate::launch::Isolation;
use crate::outcome::Outcome;
use crate::spec::Spec;
use crate::wire::{self, Answer, Request, Then, rights};

mod setup;
pub(crate) mod signals;

mod in_cell;
mod run_command;

pub(crate) mod resolve;
mod streams;
pub(crate) mod texts;

pub(crate) mod child;
mod spawn;

mod sample;
mod urgent;
mod watch;

mod destroy;
mod reap;
mod tree;

mod footprint;
mod verdict;

use in_cell::CellBench;
use run_command::{Bench, Failure, Owner, never_started};
use setup::SetupError;
use urgent::Words;

/// Is a warden until the owner, at the other end of standard input, is gone. To be called first thing in a
/// process started for it: it closes all descriptors beyond the standard ones and takes over all signals.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The owner sees only that the warden is gone; this is the one place where the reason can be told.
            let _ = writeln!(io::stderr(), "conclave warden: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("cannot set up")]
    Setup(#[from] SetupError),
    #[error("cannot understand the owner")]
    Receive(#[source] io::Error),
    #[error("the owner did not greet with a socket for urgent words: is this process started by hand?")]
    Hello,
    #[error("cannot wait for the owner")]
    Wait(#[source] io::Error),
}

fn serve() -> Result<(), ServeError> {
    let socket = setup::become_warden()?;
    let mut buffer = Vec::new();
    let Greeting {
        isolation,
        urgent,
        lock,
    } = on_hello(&socket, &mut buffer)?;
    let mut words = Words::new(urgent);
    let mut runner = match isolation {
        Isolation::None => Runner::Tree {
            bench: Bench::new(setup::process_table()?),
            _lock: lock,
        },
        Isolation::Cell(settings) => match Cells::set_up(&settings, lock, || {
            ask_for_ids(&socket, &mut buffer).map_err(Errno::from)
        }) {
            Ok(cells) => Runner::Cell(CellBench::new(cells)),
            Err(fault) => {
                let _ = wire::send(&socket, &Answer::Failed(fault), &mut buffer);
                return Ok(());
            }
        },
    };
    if answer(
        &socket,
        runner.folder().map(|folder| (Answer::Ready, folder)),
        &mut buffer,
    )
    .is_err()
    {
        return Ok(());
    }
    loop {
        wait_for_owner(&socket, &mut words)?;
        let mut afterwards = Then::Stay;
        let request = match wire::receive(&socket, &mut buffer) {
            // So it ends where the owner had not read our last answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            request => request.map_err(ServeError::Receive)?,
        };
        let said = match request {
            Some(Request::Run { number, spec, then }) => {
                let owner = Owner {
                    socket: &socket,
                    words: &mut words,
                };
                let ended = runner.run_command(owner, number, spec);
                words.forget(number);
                match ended {
                    Ok(outcome) => {
                        afterwards = then;
                        Ok((Answer::Ended(outcome), None))
                    }
                    Err(Failure::Fault(fault)) => Err(fault),
                    Err(Failure::HungUp) => return Ok(()),
                }
            }
            Some(Request::Space { bytes }) => runner.give_space(bytes).map(|()| (Answer::Ready, None)),
            Some(Request::Charge { files }) => runner.charge(&files).map(|()| (Answer::Ready, None)),
            Some(Request::Renew) => runner.renew(),
            Some(Request::Hello { .. } | Request::Mapped) => return Err(ServeError::Hello),
            None => return Ok(()),
        };
        // An owner that went away in the meantime leaves nothing to do: the command is over and cleaned up.
        if answer(&socket, said, &mut buffer).is_err() {
            return Ok(());
        }
        if afterwards == Then::Renew && answer(&socket, runner.renew(), &mut buffer).is_err() {
            return Ok(());
        }
    }
}

/// Runs commands the one way or the other.
#[allow(clippy::large_enum_variant, reason = "there is one in each process")]
enum Runner {
    Tree {
        bench: Bench,
        /// Never looked at: that it stays open until the end is all its use.
        _lock: Option<OwnedFd>,
    },
    Cell(CellBench),
}

impl Runner {
    fn run_command(&mut self, owner: Owner<'_>, number: u64, mut spec: Spec) -> Result<Outcome, Failure> {
        if let Some(reason) = owner.words.stop(number) {
            return Ok(never_started(reason));
        }
        // Of what goes beyond its limit nothing need be kept.
        spec.keep = spec.limits.output.map_or(spec.keep, |limit| limit.min(spec.keep));
        match self {
            Self::Tree { bench, .. } => bench.run_command(owner, number, spec),
            Self::Cell(bench) => bench.run_command(owner, number, spec),
        }
    }

    fn give_space(&self, bytes: u64) -> Result<(), Fault> {
        match self {
            Self::Tree { .. } => Ok(()),
            Self::Cell(bench) => Ok(bench.cells.give_space(bytes)?),
        }
    }

    fn charge(&mut self, files: &[FileSize]) -> Result<(), Fault> {
        match self {
            Self::Tree { .. } => Ok(()),
            Self::Cell(bench) => bench.cells.charge(files),
        }
    }

    /// Makes ready for another task.
    fn renew(&mut self) -> Result<(Answer, Option<OwnedFd>), Fault> {
        if let Self::Cell(bench) = self {
            bench.cells.renew()?;
        }
        Ok((Answer::Ready, self.folder()?))
    }

    /// Where the task's files go, if that is ours to say.
    fn folder(&self) -> Result<Option<OwnedFd>, Fault> {
        match self {
            Self::Tree { .. } => Ok(None),
            Self::Cell(bench) => Ok(Some(bench.cells.folder()?)),
        }
    }
}

fn answer(
    socket: &UnixStream,
    said: Result<(Answer, Option<OwnedFd>), Fault>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    match said {
        Ok((answer, None)) => wire::send(socket, &answer, buffer),
        Ok((answer, Some(descriptor))) => {
            wire::encode(&answer, buffer)?;
            rights::send(socket, buffer, &[descriptor.as_fd()])
        }
        Err(fault) => wire::send(socket, &Answer::Failed(fault), buffer),
    }
}

struct Greeting {
    isolation: Isolation,
    urgent: OwnedFd,
    lock: Option<OwnedFd>,
}

fn on_hello(socket: &UnixStream, buffer: &mut Vec<u8>) -> Result<Greeting, ServeError> {
    let mut receiver = rights::Receiver {
        stream: socket,
        descriptors: Vec::new(),
    };
    let isolation = match wire::receive(&mut receiver, buffer).map_err(ServeError::Receive)? {
        Some(Request::<()>::Hello { isolation }) => isolation,
        _ => return Err(ServeError::Hello),
    };
    let mut descriptors = receiver.descriptors.into_iter();
    let urgent = descriptors.next().ok_or(ServeError::Hello)?;
    Ok(Greeting {
        isolation,
        urgent,
        lock: descriptors.next(),
    })
}

fn ask_for_ids(socket: &UnixStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    wire::send(socket, &Answer::Unmapped, buffer)?;
    match wire::receive(socket, buffer)? {
        Some(Request::<()>::Mapped) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EPROTO)),
    }
}

/// Returns when a request (or the end) can be read. Urgent words are taken in meanwhile and afterwards, so
/// that those sent before a request are known before it is.
fn wait_for_owner(socket: &UnixStream, words: &mut Words) -> Result<(), ServeError> {
    loop {
        let mut ready = [socket.as_fd(), words.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(ServeError::Wait(errno.into())),
        }
        let [request, word] = ready.map(|fd| fd.any() == Some(true));
        if word && words.take_in().is_err() {
            return Ok(());
        }
        if request {
            return Ok(());
        }
    }
}
