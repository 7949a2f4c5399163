//! Start a warden.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cell::CellSettings;
use crate::fault::Fault;
use crate::handle::Warden;
use crate::open_files::restore_inherited;
use crate::subordinate::{MapError, Subordinates};
use crate::wire::{self, Answer, Request};

/// How far a command is kept from the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Isolation {
    /// Limits and clean-up only: the command runs as the warden's user and sees what that user sees.
    None,
    /// Each command in a cell of its own.
    Cell(Box<CellSettings>),
}

impl Isolation {
    /// To whom the owner has to give a task's files. Where only the warden can, it does so before the first command.
    pub fn owner(&self) -> Option<u32> {
        match self {
            Self::Cell(settings) if nix::unistd::geteuid().is_root() => Some(settings.user),
            Self::Cell(_) | Self::None => None,
        }
    }

    /// How large the files of a task may be that is given no other space. Without cells this has no meaning.
    fn space(&self) -> u64 {
        match self {
            Self::Cell(settings) => settings.space,
            Self::None => 0,
        }
    }

    fn subordinates(&self) -> Option<&Subordinates> {
        match self {
            Self::Cell(settings) => settings.subordinates.as_ref(),
            Self::None => None,
        }
    }

    /// Kills all processes of the command that runs in this warden's cell, for an owner whose warden hangs. What it
    /// cannot reach is not there any more, or dies with the warden.
    pub fn kill_processes(&self) {
        if let Self::Cell(settings) = self
            && let Some((place, name)) = &settings.group
        {
            place.kill(name);
        }
    }

    /// For one of several wardens: each has a group and a user of its own, so that their commands are strangers.
    pub fn of_warden(&self, number: u32) -> Isolation {
        match self {
            Self::None => Self::None,
            Self::Cell(settings) => {
                let mut settings = settings.clone();
                settings.user += number;
                settings.subordinates = settings.subordinates.map(|ids| ids.of_warden(number));
                if let Some((_, name)) = &mut settings.group {
                    *name = format!("{name}-{number}");
                }
                Self::Cell(settings)
            }
        }
    }
}

/// All that is needed to start a warden, as often as one is needed.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub isolation: Isolation,
    /// A program that calls [`crate::warden::run`] when started with `args`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// An open file with a `flock` on it. The warden holds it open until it is gone, so the lock lives as
    /// long as any process of any command does, whatever happens to the owner.
    pub lock: Option<Arc<OwnedFd>>,
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("cannot make the sockets to talk to a warden")]
    Sockets(#[source] io::Error),
    #[error("cannot start {program:?} as a warden")]
    Spawn {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot set the warden's limit on open files")]
    OpenFiles(#[source] io::Error),
    #[error("cannot greet the warden")]
    Greet(#[source] io::Error),
    #[error("{program:?} did not answer as a warden: see its message on stderr, if it left one")]
    Answer {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot give a subordinate id to the warden's commands")]
    Map(#[source] MapError),
    #[error("this machine cannot make cells as they were asked for")]
    Refused(#[source] Fault),
}

/// A warden is ready within milliseconds; this only keeps a wrong program from holding its owner for ever.
const READY_WITHIN: Duration = Duration::from_secs(10);

impl Launcher {
    /// The running binary, started again with the one argument `warden`. By way of `/proc`, so that it is the
    /// same one even after an upgrade has replaced the file.
    pub fn this_binary(isolation: Isolation) -> Self {
        Self {
            isolation,
            program: "/proc/self/exe".into(),
            args: vec!["warden".into()],
            lock: None,
        }
    }

    pub fn start(&self) -> Result<Warden, LaunchError> {
        let (ours, theirs) = UnixStream::pair().map_err(LaunchError::Sockets)?;
        let (urgent, their_urgent) = wire::urgent_pair().map_err(|e| LaunchError::Sockets(e.into()))?;
        // No `pre_exec`: with one, std forks, which costs more the larger the owner is. The warden does for
        // itself all that would have stood there. It gets no environment, because commands of the same user
        // can read it and the owner's may hold secrets.
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| LaunchError::Spawn {
                program: self.program.clone(),
                source,
            })?;
        // It waits for its greeting.
        let greeted = restore_inherited(child.id())
            .map_err(LaunchError::OpenFiles)
            .and_then(|()| self.greet(child.id(), &ours, their_urgent));
        match greeted {
            Ok(folder) => {
                let space = self.isolation.space();
                Ok(Warden::new(child, ours, urgent, folder, space))
            }
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    fn greet(
        &self,
        warden: u32,
        socket: &UnixStream,
        their_urgent: OwnedFd,
    ) -> Result<Option<OwnedFd>, LaunchError> {
        let mut buffer = Vec::new();
        let hello: Request<()> = Request::Hello {
            isolation: self.isolation.clone(),
        };
        wire::encode(&hello, &mut buffer).map_err(LaunchError::Greet)?;
        let mut descriptors = vec![their_urgent.as_fd()];
        descriptors.extend(self.lock.as_deref().map(AsFd::as_fd));
        wire::rights::send(socket, &buffer, &descriptors).map_err(LaunchError::Greet)?;

        socket
            .set_read_timeout(Some(READY_WITHIN))
            .map_err(LaunchError::Greet)?;
        let mut receiver = wire::rights::Receiver {
            stream: socket,
            descriptors: Vec::new(),
        };
        let mut heard = wire::receive::<Answer>(&mut receiver, &mut buffer);
        if let (Ok(Some(Answer::Unmapped)), Some(ids)) = (&heard, self.isolation.subordinates()) {
            ids.map(warden).map_err(LaunchError::Map)?;
            wire::send(socket, &Request::<()>::Mapped, &mut buffer).map_err(LaunchError::Greet)?;
            heard = wire::receive(&mut receiver, &mut buffer);
        }
        let answer = match heard {
            Ok(Some(Answer::Ready)) => Ok(()),
            Ok(Some(Answer::Failed(fault))) => return Err(LaunchError::Refused(fault)),
            Ok(Some(_)) => Err(io::ErrorKind::InvalidData.into()),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        answer.map_err(|source| LaunchError::Answer {
            program: self.program.clone(),
            source,
        })?;
        socket.set_read_timeout(None).map_err(LaunchError::Greet)?;
        Ok(receiver.descriptors.pop())
    }
}

/// Neither call can fail in a way that matters: a child that has ended cannot be killed and need not be.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
