//! Errors of the platform that keep a warden from running a command. The task itself causes only few of them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::cell::CellSetupError;
use crate::cgroup::CgroupError;
use crate::cpu::CpuNumber;
use crate::wire;

/// Why a warden could not run a command to its end. The machine is the cause and not the task, except for
/// [`PlatformError::NoSuchNetwork`], and for a directory that an earlier command of the task has closed or removed.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum PlatformError {
    #[error("cannot create a pipe for the command's output")]
    Pipe(#[source] Errno),
    #[error("cannot copy the command's input into memory")]
    CopyInput(#[source] Errno),
    #[error("cannot open the input file {path:?}")]
    OpenInput {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot start a process: the machine or this user has reached its limit of processes or memory")]
    Clone(#[source] Errno),
    #[error("cannot connect the command's standard streams")]
    Streams(#[source] Errno),
    #[error("cannot set the limits of the command")]
    Rlimit(#[source] Errno),
    #[error("cannot forbid new privileges")]
    NoNewPrivileges(#[source] Errno),
    #[error("cannot set the parent-death signal of the command")]
    DeathSignal(#[source] Errno),
    #[error("cannot enter the directory {path:?}")]
    ChangeDirectory {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot execute the program: the machine is out of resources")]
    Execute(#[source] Errno),
    #[error("the kernel killed the command because the machine was out of memory")]
    MachineMemory,
    #[error("cannot pin the warden to CPU {cpu}")]
    Pin {
        cpu: CpuNumber,
        #[source]
        errno: Errno,
    },
    #[error("cannot wait for the command")]
    Wait(#[source] Errno),
    #[error("cannot create a cell")]
    Cell(#[from] CellSetupError),
    #[error("cannot apply the limits of a cell")]
    Cgroup(#[from] CgroupError),
    /// Never a failure of the platform: the command asked for a network that the operator has not configured.
    #[error(
        "there is no network {name:?} on this executor: use another network, or ask the operator to add it to \
         sandbox.networks"
    )]
    NoSuchNetwork { name: String },
}

/// An `errno` value that a warden can send to its owner: it can be serialized, unlike `io::Error`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errno(pub i32);

impl Errno {
    pub(crate) fn last() -> Self {
        Self::from(io::Error::last_os_error())
    }

    /// Whether the machine is out of a resource. The command is not the cause of such an error.
    pub(crate) fn is_resource_shortage(self) -> bool {
        matches!(self.0, libc::ENOMEM | libc::EAGAIN | libc::EMFILE | libc::ENFILE)
    }

    /// The text of `strerror`, without the number that `io::Error` appends.
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
