//! A cell: namespaces, a root of its own, a control group, and a process that has given up all power before it takes
//! orders. Made ahead of need, used for one command, and gone with its first process.
//!
//! Reading order: `settings` says how cells are made; `user`, `template` are what the warden does once; `init` and
//! `stub` are the two processes of each cell, in the order in which power is given up.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2, sethostname};

mod settings;
mod step;
mod user;

mod mount;
mod template;

mod filter;
mod landlock;
mod loopback;
mod power;
mod process;

mod init;
mod orders;
mod stub;

pub use settings::{CellSettings, Network, Part, WORKSPACE};
pub use step::{Step, StepError};

pub(crate) use landlock::version as landlock_version;

use filter::Filter;
use init::{Init, Reach};
use landlock::Rules;
pub(crate) use orders::Orders;
use orders::{Company, Message, Said};
use process::Stack;
use step::At;
use user::{Outer, Who};

use crate::cgroup::{Group, GroupLimits};
use crate::fault::{Errno, Fault};
use crate::wire::{self, rights};

/// What a warden needs to make one cell after another.
pub(crate) struct Cells {
    who: Who,
    group: Option<Group>,
    filter: Filter,
    /// Of the task's folders. None where the kernel has no such wall.
    rules: Option<Rules>,
    networks: Vec<(String, OwnedFd)>,
    /// So that the lock lives as long as any cell does.
    lock: Option<OwnedFd>,
    stack: Stack,
    space: Space,
    ready: Option<Cell>,
    /// In which no command is left, and whose first process is on its way out: that takes the kernel longer than a
    /// short command, and nobody need wait for it.
    deserted: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Space {
    bytes: u64,
    files: u64,
}

/// One cell, for one command. Dropping it ends all its processes and waits for their end.
pub(crate) struct Cell {
    init: Pid,
    socket: UnixStream,
    status: File,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Parked,
    /// Only the first process is left, and that is about to end.
    Deserted,
    Gone,
}

/// What is known of the command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    NotYet,
    /// As `wait` gives it.
    With(i32),
    /// The cell's first process is gone and has not said.
    Unknown,
}

/// A network that every cell can ask for.
pub const LOOPBACK: &str = "loopback";

impl Cells {
    /// Moves this process to where cells can be made. There is no way back, and no path to the host's files.
    pub(crate) fn set_up(settings: &CellSettings, lock: Option<OwnedFd>) -> Result<Cells, Fault> {
        let group = match &settings.group {
            Some((place, name)) => Some(Group::make(place, name).map_err(Fault::from)?),
            None => None,
        };
        let who = Who::of_warden(settings.user);
        if let Who::Ordinary = who {
            let outer = Outer::now();
            unshare(CloneFlags::CLONE_NEWUSER).at(Step::UserNamespace)?;
            outer.map().at(Step::MapUser)?;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut networks = Vec::new();
        for network in &settings.networks {
            let namespace = open(&network.namespace, flags, Mode::empty()).at(Step::OpenNetwork)?;
            networks.push((network.name.clone(), namespace));
        }
        // For good: a warden needs no network, and all its cells are in this one, in which there is nothing.
        unshare(CloneFlags::CLONE_NEWNET).at(Step::NetworkNamespace)?;
        unshare(CloneFlags::CLONE_NEWUTS).at(Step::HostName)?;
        sethostname("cell").at(Step::HostName)?;
        unshare(CloneFlags::CLONE_NEWNS).at(Step::MountNamespace)?;
        template::move_in(settings, &who)?;
        // What no process that comes from here can ever get need not be taken from each.
        power::bound_capabilities().at(Step::BoundingSet)?;
        let space = Space {
            bytes: settings.space,
            files: settings.files,
        };
        let mut cells = Cells {
            who,
            group,
            filter: Filter::new(),
            rules: None,
            networks,
            lock,
            stack: Stack::new().at(Step::Stub)?,
            space,
            ready: None,
            deserted: Vec::new(),
        };
        cells.mount_task()?;
        cells.ready = Some(cells.make(Reach::Nothing)?);
        // Waited for once: a machine on which cells cannot be made is known before the first command.
        if let Some(cell) = &mut cells.ready {
            cell.park()?;
        }
        Ok(cells)
    }

    /// The folder of the task: `box`, `tmp`, `shm`, and room for what the task shall not see.
    pub(crate) fn folder(&self) -> Result<OwnedFd, StepError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        open(WORKSPACE, flags, Mode::empty()).at(Step::MakeFolders)
    }

    /// Forgets the task, its files and its cell, and makes everything ready for the next.
    pub(crate) fn renew(&mut self) -> Result<(), Fault> {
        self.ready = None;
        umount2(WORKSPACE, MntFlags::MNT_DETACH).at(Step::ClearTask)?;
        self.deserted.clear();
        if let Some(group) = &mut self.group {
            group.settle()?;
        }
        self.mount_task()?;
        self.ready = Some(self.make(Reach::Nothing)?);
        Ok(())
    }

    fn mount_task(&mut self) -> Result<(), StepError> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let Space { bytes, files } = self.space;
        let options = format!("mode=0711,size={bytes},nr_inodes={files}");
        mount(
            Some("task"),
            WORKSPACE,
            Some("tmpfs"),
            flags,
            Some(options.as_str()),
        )
        .at(Step::MountTask)?;
        let folders = ["box", "tmp", "shm"].map(|name| Path::new(WORKSPACE).join(name));
        let folders = folders.each_ref().map(PathBuf::as_path);
        folders
            .iter()
            .try_for_each(|folder| self.make_folder(folder))
            .at(Step::MakeFolders)?;
        self.rules = Rules::new(&[Path::new("/")], &folders).at(Step::Landlock)?;
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)?;
        match self.who {
            Who::Root { command } => chown(path, Some(command), Some(command)),
            Who::Ordinary => Ok(()),
        }
    }

    /// Does not wait until it is parked: that goes on while there is nothing to run yet.
    fn make(&self, reach: Reach<'_>) -> Result<Cell, StepError> {
        let (ours, theirs) = UnixStream::pair().at(Step::Talk)?;
        let (status, writing) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).at(Step::Talk)?;
        let init = Init {
            who: self.who,
            reach,
            group: self.group.as_ref(),
            rules: self.rules.as_ref(),
            filter: &self.filter,
            socket: &theirs,
            status: writing.as_raw_fd(),
            lock: self.lock.as_ref().map(AsRawFd::as_raw_fd),
            stack: &self.stack,
        };
        Ok(Cell {
            init: Pid::from_raw(init.start()?),
            socket: ours,
            status: status.into(),
            stage: Stage::Starting,
        })
    }

    /// A cell that has given up all power, for one command: the one that is ready, if it will do.
    pub(crate) fn take(&mut self, network: Option<&str>) -> Result<Cell, Fault> {
        let ready = self.ready.take();
        let mut cell = match (network, ready) {
            (None, Some(ready)) => ready,
            (None, None) => self.make(Reach::Nothing)?,
            (Some(name), ready) => {
                // There is one group, and one cell in it at a time.
                drop(ready);
                self.make(self.reach(name)?)?
            }
        };
        cell.park()?;
        Ok(cell)
    }

    /// Returns when no process of the command is left, and says what kept it from starting, if anything did.
    pub(crate) fn end(&mut self, mut cell: Cell) -> Result<Option<StepError>, StepError> {
        if cell.stage != Stage::Deserted {
            cell.kill();
        }
        // Nobody is left who could say more, so this does not wait.
        let said = cell.said();
        if cell.stage == Stage::Deserted {
            self.deserted.push(cell);
        }
        match said? {
            Some(Said::Failed(error)) => Ok(Some(error)),
            _ => Ok(None),
        }
    }

    /// Bounds the task's files, until its end.
    pub(crate) fn give_space(&self, bytes: u64) -> Result<(), StepError> {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let size = format!("size={bytes}");
        mount(None::<&str>, WORKSPACE, None::<&str>, flags, Some(size.as_str())).at(Step::ResizeTask)
    }

    /// Whether the task could write nothing more.
    pub(crate) fn is_full(&self) -> bool {
        statvfs(WORKSPACE).is_ok_and(|space| space.blocks_available() == 0 || space.files_free() == 0)
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Limits and measures the command of the cell that was taken.
    pub(crate) fn begin(&mut self, limits: GroupLimits) -> Result<(), Fault> {
        match &mut self.group {
            Some(group) => Ok(group.begin(limits)?),
            None => Ok(()),
        }
    }

    fn reach(&self, name: &str) -> Result<Reach<'_>, Fault> {
        if name == LOOPBACK {
            return Ok(Reach::Loopback);
        }
        let known = self.networks.iter().find(|(known, _)| known == name);
        known
            .map(|(_, namespace)| Reach::Named(namespace.as_fd()))
            .ok_or_else(|| Fault::Network {
                name: name.to_string(),
            })
    }
}

impl Cell {
    /// Waits until it has given up all power.
    fn park(&mut self) -> Result<(), StepError> {
        if self.stage == Stage::Starting {
            match self.said()? {
                Some(Said::Parked) => self.stage = Stage::Parked,
                Some(Said::Failed(error)) => return Err(error),
                None => return Err(Errno(libc::EPIPE)).at(Step::Talk),
            }
        }
        Ok(())
    }

    fn said(&self) -> Result<Option<Said>, StepError> {
        wire::receive(&self.socket, &mut Vec::new()).at(Step::Talk)
    }

    /// Starts the command.
    pub(crate) fn order(&self, orders: &Orders, streams: [BorrowedFd<'_>; 3]) -> Result<(), StepError> {
        let mut frame = Vec::new();
        wire::encode(orders, &mut frame).at(Step::Orders)?;
        rights::send(&self.socket, &frame, &streams).at(Step::Orders)
    }

    /// Readable when there is news of the command's end.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.status.as_fd()
    }

    pub(crate) fn ended(&mut self) -> Ended {
        let mut message = [0; Message::SIZE];
        match self.status.read_exact(&mut message) {
            Ok(()) => {
                let Message { status, company } = Message::decode(message);
                if company == Company::Nobody {
                    self.stage = Stage::Deserted;
                }
                Ended::With(status)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ended::NotYet,
            Err(_) => Ended::Unknown,
        }
    }

    /// The kernel lets the first process be reaped when all others are gone. Then its number may be another's.
    fn kill(&mut self) {
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
