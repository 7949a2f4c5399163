//! Why a warden could not run a command: never by anything that the command did.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cell::StepError;
use crate::cgroup::GroupError;
use crate::wire;

/// The step that failed on the warden's side.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Fault {
    #[error("cannot make a pipe for the command's output")]
    Pipe(#[source] Errno),
    #[error("cannot hold the command's input in memory")]
    HoldInput(#[source] Errno),
    #[error("cannot open the input file {path:?}")]
    OpenInput {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot start another process: the machine or this user is out of processes or memory")]
    Clone(#[source] Errno),
    #[error("cannot connect the command's standard streams")]
    Streams(#[source] Errno),
    #[error("cannot set the limits of the command")]
    Rlimit(#[source] Errno),
    #[error("cannot forbid new privileges")]
    NoNewPrivileges(#[source] Errno),
    #[error("cannot tie the command's life to the warden's")]
    DeathSignal(#[source] Errno),
    #[error("cannot enter the directory {path:?}")]
    ChangeDirectory {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("the machine had no means left to execute the program")]
    Execute(#[source] Errno),
    #[error("the kernel ended the command because the machine was out of memory")]
    MachineMemory,
    #[error("cannot wait for the command")]
    Wait(#[source] Errno),
    #[error("cannot make a cell")]
    Cell(#[from] StepError),
    #[error("cannot keep the limits of a cell")]
    Group(#[from] GroupError),
    /// The one fault that is no failure of the platform: the command asked for what the operator has not set up.
    #[error(
        "there is no network {name:?} here: ask for another, or have the operator name it in sandbox.networks"
    )]
    Network { name: String },
}

/// The error and its causes on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

/// An error number that can cross the socket, which `io::Error` cannot.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl Errno {
    pub(crate) fn last() -> Self {
        Self::from(io::Error::last_os_error())
    }

    /// The machine has none left, which is no fault of whoever asked.
    pub(crate) fn is_shortage(self) -> bool {
        matches!(self.0, libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE)
    }

    /// What `strerror` says, without the number that `io::Error` appends.
    pub(crate) fn text(self) -> &'static str {
        nix::errno::Errno::from_raw(self.0).desc()
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<nix::errno::Errno> for Errno {
    fn from(errno: nix::errno::Errno) -> Self {
        Self(errno as i32)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}
