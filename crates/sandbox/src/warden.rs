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

use crate::wire::{self, Answer, Request, rights};

mod setup;
mod signals;

mod run_command;

mod resolve;
mod streams;

mod child;
mod spawn;

mod sample;
mod urgent;
mod watch;

mod destroy;
mod reap;
mod tree;

mod clock;
mod footprint;
mod verdict;

use run_command::{Bench, Failure, Owner};
use setup::SetupError;
use urgent::Words;

/// Is a warden until the owner, at the other end of standard input, is gone. To be called first thing in a
/// process started for it: it closes all descriptors beyond the standard ones and takes over all signals.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The owner sees only that the warden is gone; this is the one place where the reason can be told.
            let _ = writeln!(io::stderr(), "conclave warden: {}", chain(&error));
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
    // The lock, if there is one, is never looked at: that it stays open until the end is all its use.
    let (urgent, _lock) = on_hello(&socket, &mut buffer)?;
    let mut words = Words::new(urgent);
    let mut bench = Bench::new(setup::process_table()?, setup::open_nothing()?);
    if wire::send(&socket, &Answer::Ready, &mut buffer).is_err() {
        return Ok(());
    }
    loop {
        wait_for_owner(&socket, &mut words)?;
        let (number, spec) = match wire::receive(&socket, &mut buffer).map_err(ServeError::Receive)? {
            Some(Request::Run { number, spec }) => (number, spec),
            Some(Request::Hello { .. }) => return Err(ServeError::Hello),
            None => return Ok(()),
        };
        let answer = match bench.run_command(
            Owner {
                socket: &socket,
                words: &mut words,
            },
            number,
            spec,
        ) {
            Ok(outcome) => Answer::Ended(outcome),
            Err(Failure::Fault(fault)) => Answer::Failed(fault),
            Err(Failure::HungUp) => return Ok(()),
        };
        words.forget(number);
        // An owner that went away in the meantime leaves nothing to do: the command is over and cleaned up.
        if wire::send(&socket, &answer, &mut buffer).is_err() {
            return Ok(());
        }
    }
}

fn on_hello(socket: &UnixStream, buffer: &mut Vec<u8>) -> Result<(OwnedFd, Option<OwnedFd>), ServeError> {
    let mut receiver = rights::Receiver {
        stream: socket,
        descriptors: Vec::new(),
    };
    match wire::receive(&mut receiver, buffer).map_err(ServeError::Receive)? {
        // There is one kind of isolation so far, and it asks for nothing to be prepared.
        Some(Request::<()>::Hello {
            isolation: crate::Isolation::None,
        }) => {}
        _ => return Err(ServeError::Hello),
    }
    let mut descriptors = receiver.descriptors.into_iter();
    let urgent = descriptors.next().ok_or(ServeError::Hello)?;
    Ok((urgent, descriptors.next()))
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

/// The error and its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
