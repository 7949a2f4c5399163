//! Starts a warden process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cell::CellSettings;
use crate::cpu::CpuNumber;
use crate::handle::{StartedWarden, Warden};
use crate::open_file_limit::restore_inherited_limit;
use crate::output::OwnerOutput;
use crate::platform_error::PlatformError;
use crate::subordinate_ids::{IdMapError, SubordinateIds};
use crate::wire::descriptors::DescriptorReceiver;
use crate::wire::{self, WardenRequest, WardenResponse};

/// How a warden isolates commands from the machine: not at all, or each in its own cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum CommandIsolation {
    /// No isolation: the command runs as the warden's user and sees what that user sees. The warden only enforces
    /// limits and cleans up.
    None,
    /// Each command runs in its own cell.
    Cell(Box<CellSettings>),
}

impl CommandIsolation {
    /// The user to whom the owner must give a task's files. `None` means that the owner keeps them: the warden hands
    /// them over before the first command if its commands run as another user.
    pub fn file_owner(&self) -> Option<u32> {
        match self {
            Self::Cell(settings) if nix::unistd::geteuid().is_root() => Some(settings.user),
            Self::Cell(_) | Self::None => None,
        }
    }

    /// The space for a task's files until the owner sets another one. Without cells it has no meaning.
    fn default_space(&self) -> u64 {
        match self {
            Self::Cell(settings) => settings.space,
            Self::None => 0,
        }
    }

    fn subordinate_ids(&self) -> Option<&SubordinateIds> {
        match self {
            Self::Cell(settings) => settings.subordinate_ids.as_ref(),
            Self::None => None,
        }
    }

    /// Kills all processes of the command in this warden's cell, for an owner whose warden hangs. Processes that are
    /// not in the control group die with the warden.
    pub fn kill_processes(&self) {
        if let Self::Cell(settings) = self
            && let Some((cgroup_root, name)) = &settings.group
        {
            cgroup_root.kill_group(name);
        }
    }

    /// The isolation of one of several wardens. Each warden has its own control group and its own user, so that their
    /// commands cannot affect each other.
    pub fn for_warden(&self, number: u32) -> CommandIsolation {
        match self {
            Self::None => Self::None,
            Self::Cell(settings) => {
                let mut settings = settings.clone();
                settings.user += number;
                settings.subordinate_ids = settings.subordinate_ids.map(|ids| ids.for_warden(number));
                if let Some((_, name)) = &mut settings.group {
                    *name = format!("{name}-{number}");
                }
                Self::Cell(settings)
            }
        }
    }
}

/// Starts warden processes with the same isolation and program; one launcher can start any number.
#[derive(Debug, Clone)]
pub struct WardenLauncher {
    pub isolation: CommandIsolation,
    /// A program that calls [`crate::warden::run`] when it is started with `args`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// An open file with a `flock` on it. The warden keeps it open until it ends, so the lock is held as long as any
    /// process of any command is alive, even if the owner dies.
    pub lock: Option<Arc<OwnedFd>>,
    /// An existing folder in which the owner creates files without names for output that is longer than
    /// [`crate::STREAM_HEAD`].
    pub overflow_folder: PathBuf,
}

/// Why a warden process could not be started or did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum WardenLaunchError {
    #[error("cannot create the sockets for a warden")]
    Sockets(#[source] io::Error),
    #[error("cannot create the memory for the output of a warden's commands")]
    CreateOutput(#[source] io::Error),
    #[error("cannot create a file for long output in {folder:?}")]
    OverflowFolder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start {program:?} as a warden")]
    Spawn {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot set the warden's limit on open files")]
    OpenFiles(#[source] io::Error),
    #[error("the handshake with the warden failed")]
    Handshake(#[source] io::Error),
    #[error("{program:?} did not answer as a warden; see its message on stderr, if there is one")]
    NotAWarden {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot map a subordinate id for the warden's commands")]
    MapIds(#[source] IdMapError),
    #[error("this CPU cannot be used; pin wardens only to CPUs that this process may use")]
    Pin(#[source] PlatformError),
    #[error("this machine cannot create cells with these settings")]
    CellSetup(#[source] PlatformError),
}

/// A warden is ready within milliseconds. The timeout only matters if the program is not a warden.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

impl WardenLauncher {
    /// Starts the running binary again with the single argument `warden`. The path goes through `/proc`, so that it
    /// is the same binary even after an upgrade has replaced the file. Long output goes to the folder for temporary
    /// files.
    pub fn this_binary(isolation: CommandIsolation) -> Self {
        Self {
            isolation,
            program: "/proc/self/exe".into(),
            args: vec!["warden".into()],
            lock: None,
            overflow_folder: std::env::temp_dir(),
        }
    }

    pub fn start(&self) -> Result<Warden, WardenLaunchError> {
        self.start_on(None)
    }

    /// Starts a warden whose commands run on this CPU only. In a cell a command cannot change that.
    pub fn start_pinned(&self, cpu: CpuNumber) -> Result<Warden, WardenLaunchError> {
        self.start_on(Some(cpu))
    }

    fn start_on(&self, cpu: Option<CpuNumber>) -> Result<Warden, WardenLaunchError> {
        let (ours, theirs) = UnixStream::pair().map_err(WardenLaunchError::Sockets)?;
        let (urgent, their_urgent) = wire::urgent_pair().map_err(|e| WardenLaunchError::Sockets(e.into()))?;
        let (output, memfd) =
            OwnerOutput::create(self.overflow_folder.clone()).map_err(WardenLaunchError::CreateOutput)?;
        output
            .check_folder()
            .map_err(|source| WardenLaunchError::OverflowFolder {
                folder: self.overflow_folder.clone(),
                source,
            })?;
        // There is no `pre_exec`, because with one `std` uses fork, which costs more the larger the owner is. The
        // warden sets itself up instead. It gets no environment, because commands of the same user can read it and
        // the owner's environment may hold secrets.
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| WardenLaunchError::Spawn {
                program: self.program.clone(),
                source,
            })?;
        // The warden waits for the handshake, so its limits can still be changed here.
        let handshake = restore_inherited_limit(child.id())
            .map_err(WardenLaunchError::OpenFiles)
            .and_then(|()| {
                let descriptors = [their_urgent.as_fd(), memfd.as_fd(), output.wakeup()];
                let hello: WardenRequest<()> = WardenRequest::Hello {
                    isolation: self.isolation.clone(),
                    cpu,
                };
                self.handshake(child.id(), &ours, &hello, descriptors)
            });
        match handshake {
            Ok(folder) => Ok(Warden::new(StartedWarden {
                child,
                socket: ours,
                urgent_socket: urgent,
                output,
                folder,
                default_space: self.isolation.default_space(),
            })),
            Err(error) => {
                kill_and_reap(&mut child);
                Err(error)
            }
        }
    }

    fn handshake(
        &self,
        warden: u32,
        socket: &UnixStream,
        hello: &WardenRequest<()>,
        descriptors: [BorrowedFd<'_>; 3],
    ) -> Result<Option<OwnedFd>, WardenLaunchError> {
        let mut buffer = Vec::new();
        wire::encode(hello, &mut buffer).map_err(WardenLaunchError::Handshake)?;
        let mut descriptors = descriptors.to_vec();
        descriptors.extend(self.lock.as_deref().map(AsFd::as_fd));
        wire::descriptors::send(socket, &buffer, &descriptors).map_err(WardenLaunchError::Handshake)?;

        socket
            .set_read_timeout(Some(HANDSHAKE_TIMEOUT))
            .map_err(WardenLaunchError::Handshake)?;
        let mut receiver = DescriptorReceiver::new(socket);
        let mut received = wire::receive::<WardenResponse>(&mut receiver, &mut buffer);
        if let (Ok(Some(WardenResponse::NeedsIdMapping)), Some(ids)) =
            (&received, self.isolation.subordinate_ids())
        {
            ids.map(warden).map_err(WardenLaunchError::MapIds)?;
            wire::send(socket, &WardenRequest::<()>::IdsMapped, &mut buffer)
                .map_err(WardenLaunchError::Handshake)?;
            received = wire::receive(&mut receiver, &mut buffer);
        }
        let answer = match received {
            Ok(Some(WardenResponse::Ready)) => Ok(()),
            Ok(Some(WardenResponse::Failed(error @ PlatformError::Pin { .. }))) => {
                return Err(WardenLaunchError::Pin(error));
            }
            Ok(Some(WardenResponse::Failed(error))) => return Err(WardenLaunchError::CellSetup(error)),
            Ok(Some(_)) => Err(io::ErrorKind::InvalidData.into()),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        answer.map_err(|source| WardenLaunchError::NotAWarden {
            program: self.program.clone(),
            source,
        })?;
        socket
            .set_read_timeout(None)
            .map_err(WardenLaunchError::Handshake)?;
        Ok(receiver.descriptors.pop())
    }
}

/// Errors do not matter here: killing and reaping fail only if the child has already ended and was reaped.
fn kill_and_reap(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
