//! A cell: namespaces, a root of its own, a control group, and a process that has given up all power before it takes
//! orders. Made ahead of need, used for one command, and gone with its first process.
//!
//! Reading order: `settings` says how cells are made; `user`, `template`, `power` are what the warden does once; `init`
//! and `stub` are the two processes of each cell, in the order in which power is given up. Both are at work in the
//! warden's memory, by the calls in `bare` only, until there is a program in the place of the second.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, pipe2, sethostname};

mod settings;
mod step;
mod user;

mod charge;
mod mount;
mod network;
mod task;
mod template;

mod filter;
mod ipc;
mod landlock;
mod oom;
mod power;

mod bare;
mod bystander;
mod process;

mod init;
mod orders;
mod single;
mod stub;

pub(crate) use settings::OWN;
pub use settings::{CellSettings, Network, Part, Usual, WORKSPACE};
pub use step::{Step, StepError};

pub(crate) use landlock::version as landlock_version;
pub(crate) use network::open_network;

pub(crate) use bare::Used;
pub(crate) use bystander::Bystander;
pub use charge::FileSize;
use filter::Filter;
use init::{Desk, Reach, Stacks};
use ipc::Ipc;
use landlock::{Rules, SharedFolders};
pub(crate) use oom::OomScore;
pub(crate) use orders::Orders;
use single::Stage;
pub(crate) use single::{Cell, Ended};
use step::At;
use task::{FOLDERS, TaskFiles};
pub(crate) use user::{COMMAND, WARDEN};
use user::{Outer, Who};

use crate::cgroup::{Group, GroupLimits};
use crate::fault::{Errno, Fault};
use crate::open_files::raise_open_files;
use crate::spec::Limits;
use crate::warden::child::NO_CORE;

/// What a warden needs to make one cell after another.
pub(crate) struct Cells {
    who: Who,
    group: Option<Group>,
    filter: Rc<Filter>,
    /// For Landlock. None where the kernel has none.
    shared_folders: Option<SharedFolders>,
    ipc: Ipc,
    networks: Vec<(String, OwnedFd)>,
    /// So that the lock lives as long as any cell does.
    lock: Option<OwnedFd>,
    oom_score: OomScore,
    /// Of cells that are gone, to be used again.
    stacks: Vec<Stacks>,
    usual: Usual,
    most_open_files: Option<u64>,
    files: TaskFiles,
    /// Bytes of the task's files that are charged to the group beside what the command itself takes.
    laid_out: u64,
    ready: Option<Cell>,
    /// In which no command is left, and whose first process is on its way out: that takes the kernel longer than a
    /// short command, and nobody need wait for it.
    deserted: Vec<Cell>,
}

/// A network that every cell can ask for.
pub const LOOPBACK: &str = "loopback";

impl Cells {
    /// Moves this process to where cells can be made. There is no way back, and no path to the host's files. Where
    /// commands get a subordinate id, `map_ids` has somebody outside of the new user namespace map it.
    pub(crate) fn set_up(
        settings: &CellSettings,
        lock: Option<OwnedFd>,
        map_ids: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Cells, Fault> {
        let group = match &settings.group {
            Some((place, name)) => Some(Group::make_generation(place, name).map_err(Fault::from)?),
            None => None,
        };
        let oom_score = OomScore::open().at(Step::OutOfMemory)?;
        if settings.most_open_files.is_some() {
            // The kernel refuses to send descriptors to whoever has a lower limit than its user has in flight.
            raise_open_files().at(Step::OpenFiles)?;
        }
        let who = Who::of_warden(settings);
        let outer = Outer::now();
        match who {
            Who::Root { .. } => {}
            Who::Subordinate => {
                unshare(CloneFlags::CLONE_NEWUSER).at(Step::UserNamespace)?;
                map_ids().at(Step::MapUser)?;
            }
            Who::Ordinary => {
                unshare(CloneFlags::CLONE_NEWUSER).at(Step::UserNamespace)?;
                outer.map().at(Step::MapUser)?;
            }
        }
        let mut networks = Vec::new();
        for network in &settings.networks {
            let namespace = open_network(&network.namespace).at(Step::OpenNetwork)?;
            networks.push((network.name.clone(), namespace));
        }
        // For good: a warden needs no network, and all its cells are in this one, in which there is nothing.
        unshare(CloneFlags::CLONE_NEWNET).at(Step::NetworkNamespace)?;
        unshare(CloneFlags::CLONE_NEWUTS).at(Step::HostName)?;
        sethostname("cell").at(Step::HostName)?;
        unshare(CloneFlags::CLONE_NEWNS).at(Step::MountNamespace)?;
        let ipc = Ipc::make().at(Step::IpcNamespace)?;
        template::move_in(settings, &who)?;
        // What no process that comes from here can ever get need not be taken from each.
        power::bound_capabilities().at(Step::BoundingSet)?;
        power::hide().at(Step::Hide)?;
        // Those of all cells come from here. The filter lets nobody change it afterwards.
        bare::limit(&NO_CORE).at(Step::CoreDumps)?;
        let filter = Filter::new();
        bare::forbid_new_privileges().at(Step::NoNewPrivileges)?;
        bare::filter_calls(filter.shared()).at(Step::Seccomp)?;
        let mut cells = Cells {
            who,
            group,
            filter: Rc::new(filter),
            shared_folders: SharedFolders::open().at(Step::Landlock)?,
            ipc,
            networks,
            lock,
            oom_score,
            stacks: Vec::new(),
            usual: settings.usual,
            most_open_files: settings.most_open_files,
            files: TaskFiles::new(settings, who),
            laid_out: 0,
            ready: None,
            deserted: Vec::new(),
        };
        cells.files.mount()?;
        cells.ready = Some(cells.make(Reach::Nothing)?);
        // Waited for once: a machine on which cells cannot be made is known before the first command.
        if let Some(cell) = &mut cells.ready {
            cell.park()?;
        }
        Ok(cells)
    }

    /// The folder of the task: `box`, `tmp`, `shm`, and room for what the task shall not see.
    pub(crate) fn folder(&self) -> Result<OwnedFd, StepError> {
        self.files.folder()
    }

    /// Forgets the task, its files and its cell, and makes everything ready for the next.
    pub(crate) fn renew(&mut self) -> Result<(), Fault> {
        self.files.unmount()?;
        self.laid_out = 0;
        let left = self.ready.take().into_iter().chain(self.deserted.drain(..));
        let left: Vec<Cell> = left.collect();
        left.into_iter().for_each(|cell| self.retire(cell));
        self.files.mount()?;
        self.ready = Some(self.make(Reach::Nothing)?);
        Ok(())
    }

    /// Does not wait until it is parked: that goes on while there is nothing to run yet.
    fn make(&mut self, reach: Reach) -> Result<Cell, Fault> {
        self.retire_those_that_are_gone();
        // What an earlier step has written counts as its own. It must not be held against this one, and least of all
        // against the process that waits in the group.
        if let Some(group) = &mut self.group {
            group.settle()?;
            // A group that held the task's files has given way to another.
            self.laid_out = 0;
        }
        let (ours, theirs) = UnixStream::pair().at(Step::Talk)?;
        let (hearing, saying) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).at(Step::Talk)?;
        let stacks = match self.stacks.pop() {
            Some(stacks) => stacks,
            None => Stacks::new().at(Step::Cell)?,
        };
        // A command may have left something, and is gone.
        if !self.ipc.is_empty().at(Step::IpcNamespace)? {
            self.ipc = Ipc::make().at(Step::IpcNamespace)?;
        }
        let rules = match &self.shared_folders {
            Some(shared) => {
                Rules::new(shared, &FOLDERS.map(Path::new), Some(self.ipc.queues())).at(Step::Landlock)?
            }
            None => None,
        };
        let group = self.group.as_ref();
        let born_in = group.and_then(Group::directory);
        let to_enter = group.filter(|_| born_in.is_none());
        let desk = Box::new(Desk {
            who: self.who,
            reach,
            entrances: to_enter
                .into_iter()
                .flat_map(Group::entrances)
                .map(|entrance| entrance.as_raw_fd())
                .collect(),
            group: born_in.map(|group| group.as_raw_fd()),
            rules: rules.as_ref().map(AsRawFd::as_raw_fd),
            filter: Rc::clone(&self.filter),
            streams: theirs.as_raw_fd(),
            words: saying.as_raw_fd(),
            of_warden: [ours.as_raw_fd(), hearing.as_raw_fd()],
            lock: self.lock.as_ref().map(AsRawFd::as_raw_fd),
            oom_score: self.oom_score.as_raw_fd(),
            orders: AtomicPtr::default(),
            stacks,
        });
        // SAFETY: the cell keeps the desk, and is not dropped before all its processes are gone.
        let init = unsafe { desk.open_cell() }?;
        Ok(Cell {
            init: Pid::from_raw(init),
            streams: ours,
            words: hearing.into(),
            stage: Stage::Starting,
            has_begun: false,
            failed: None,
            orders: None,
            desk: Some(desk),
        })
    }

    fn retire_those_that_are_gone(&mut self) {
        for cell in self.deserted.extract_if(.., Cell::is_gone).collect::<Vec<_>>() {
            self.retire(cell);
        }
    }

    /// Waits until nothing is left of a cell.
    fn retire(&mut self, mut cell: Cell) {
        cell.kill();
        self.stacks.extend(cell.desk.take().map(|desk| desk.stacks));
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
                let reach = self.reach(name)?;
                self.make(reach)?
            }
        };
        cell.park()?;
        self.files.hand_over()?;
        Ok(cell)
    }

    /// Returns when no process of the command is left, and says what kept it from starting, if anything did.
    pub(crate) fn end(&mut self, mut cell: Cell) -> Option<StepError> {
        if cell.stage != Stage::Deserted {
            cell.listen();
        }
        let failed = cell.failed;
        match cell.stage {
            Stage::Deserted => self.deserted.push(cell),
            _ => self.retire(cell),
        }
        failed
    }

    /// Bounds the task's files, until its end.
    pub(crate) fn give_space(&self, bytes: u64) -> Result<(), StepError> {
        self.files.resize(bytes)
    }

    /// Whether the task could write nothing more.
    pub(crate) fn is_full(&self) -> bool {
        self.files.is_full()
    }

    /// With what the operator has set for those who ask for nothing, and no more than anybody may have.
    pub(crate) fn complete(&self, limits: Limits) -> Limits {
        let limits = self.usual.complete(limits);
        let open_files = [limits.open_files, self.most_open_files];
        Limits {
            open_files: open_files.into_iter().flatten().min(),
            ..limits
        }
    }

    pub(crate) fn oom_score(&self) -> &OomScore {
        &self.oom_score
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Limits and measures the command of the cell that was taken.
    pub(crate) fn begin(&mut self, limits: GroupLimits) -> Result<(), Fault> {
        match &mut self.group {
            Some(group) => {
                let memory = limits.memory.map(|bytes| {
                    let bytes = bytes.max(Group::LEAST_MEMORY);
                    bytes.saturating_add(self.laid_out)
                });
                Ok(group.begin(GroupLimits { memory, ..limits })?)
            }
            None => Ok(()),
        }
    }

    fn reach(&self, name: &str) -> Result<Reach, Fault> {
        if name == LOOPBACK {
            return Ok(Reach::Loopback);
        }
        let known = self.networks.iter().find(|(known, _)| known == name);
        known
            .map(|(_, namespace)| Reach::Named(namespace.as_raw_fd()))
            .ok_or_else(|| Fault::Network {
                name: name.to_string(),
            })
    }
}
