//! Cells: the sandboxes of single commands. A cell has its own namespaces, root file system and control group, and a
//! process that has dropped all privileges before it gets the command. It is created ahead of need, used for one
//! command, and ends with its first process.
//!
//! `settings` says how cells are created. `command_user`, `root_template` and `privileges` are what the warden does
//! once. `init` and `stub` are the two processes of each cell, in the order in which they drop privileges. Both run
//! in the warden's memory, with the system calls of `bare` only, until the stub executes the program.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicPtr;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, pipe2, sethostname};

mod command_user;
mod settings;
mod setup_step;

mod allocate_files;
mod mount;
mod network;
mod root_template;
mod task_file_system;

mod ipc;
mod landlock;
mod oom;
mod privileges;
mod seccomp;

mod bare;
mod clone;
mod user_namespace_probe;

mod init;
mod instance;
mod protocol;
mod stub;

pub(crate) use settings::RESERVED_NAMES;
pub use settings::{CellSettings, DefaultCommandLimits, NamedNetwork, RootEntry, WORKSPACE};
pub use setup_step::{CellSetupError, CellSetupStep};

pub(crate) use landlock::version as landlock_version;
use network::CellNetwork;
pub use network::LOOPBACK_NETWORK;
pub(crate) use network::open_network;

pub use allocate_files::FileAllocation;
pub(crate) use bare::ResourceUsage;
pub(crate) use command_user::{COMMAND_ID_IN_NAMESPACE, WARDEN_ID_IN_NAMESPACE};
use command_user::{CommandUser, OwnIds};
use init::{CellContext, CellStacks};
use instance::CellState;
pub(crate) use instance::{Cell, CommandState};
use ipc::IpcNamespace;
use landlock::{LandlockRules, SharedFolders};
pub(crate) use oom::OomScore;
pub(crate) use protocol::ExecRequest;
pub(crate) use seccomp::CommandAffinity;
use seccomp::SeccompFilter;
use setup_step::AtSetupStep;
use task_file_system::{TASK_FOLDERS, TaskFileSystem};
pub(crate) use user_namespace_probe::UserNamespaceProbe;

use crate::cgroup::{Cgroup, CgroupLimits};
use crate::open_beneath::OpenPurpose;
use crate::open_file_limit::raise_open_file_limit;
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandLimits;
use crate::warden::child::NO_CORE_DUMPS;

/// Creates the cells of one warden, one after another, and holds what they share: cgroup, seccomp filter, networks.
pub(crate) struct CellFactory {
    command_user: CommandUser,
    group: Option<Cgroup>,
    filter: Rc<SeccompFilter>,
    /// For the Landlock rules. `None` if the kernel has no Landlock.
    shared_folders: Option<SharedFolders>,
    ipc: IpcNamespace,
    networks: Vec<(String, OwnedFd)>,
    /// Passed to every cell, so that the lock is held as long as any cell exists.
    lock: Option<OwnedFd>,
    oom_score: OomScore,
    /// The stacks of ended cells, for reuse.
    stacks: Vec<CellStacks>,
    default_limits: DefaultCommandLimits,
    max_open_files: Option<u64>,
    files: TaskFileSystem,
    /// Bytes of the task's files that are charged to the group in addition to the command's memory.
    charged_file_bytes: u64,
    ready: Option<Cell>,
    /// Cells without any command process, whose init process is ending. That takes the kernel longer than a short
    /// command takes, so nothing waits for it.
    ending_cells: Vec<Cell>,
}

impl CellFactory {
    /// Moves this process into its own namespaces and root, in which cells can be created. It cannot go back and has
    /// no path to the host's files afterwards. If commands get a subordinate id, `map_ids` asks the owner, which is
    /// outside of the new user namespace, to map it.
    pub(crate) fn set_up(
        settings: &CellSettings,
        affinity: CommandAffinity,
        lock: Option<OwnedFd>,
        map_ids: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<CellFactory, PlatformError> {
        let group = match &settings.group {
            Some((cgroup_root, name)) => {
                Some(Cgroup::create_generation(cgroup_root, name).map_err(PlatformError::from)?)
            }
            None => None,
        };
        let oom_score = OomScore::open().at(CellSetupStep::OomScore)?;
        if settings.max_open_files.is_some() {
            // The kernel refuses to send descriptors if the sender's limit is below the number that its user has in
            // flight.
            raise_open_file_limit().at(CellSetupStep::RaiseOpenFileLimit)?;
        }
        let command_user = CommandUser::for_warden(settings);
        let own_ids = OwnIds::current();
        match command_user {
            CommandUser::Dedicated { .. } => {}
            CommandUser::Subordinate => {
                unshare(CloneFlags::CLONE_NEWUSER).at(CellSetupStep::UserNamespace)?;
                map_ids().at(CellSetupStep::MapUser)?;
            }
            CommandUser::SameAsWarden => {
                unshare(CloneFlags::CLONE_NEWUSER).at(CellSetupStep::UserNamespace)?;
                own_ids.map_into_namespace().at(CellSetupStep::MapUser)?;
            }
        }
        let mut networks = Vec::new();
        for network in &settings.networks {
            let namespace = open_network(&network.namespace).at(CellSetupStep::OpenNetwork)?;
            networks.push((network.name.clone(), namespace));
        }
        // A warden needs no network, so it stays in this empty namespace, which its cells share.
        unshare(CloneFlags::CLONE_NEWNET).at(CellSetupStep::NetworkNamespace)?;
        unshare(CloneFlags::CLONE_NEWUTS).at(CellSetupStep::HostName)?;
        sethostname("cell").at(CellSetupStep::HostName)?;
        unshare(CloneFlags::CLONE_NEWNS).at(CellSetupStep::MountNamespace)?;
        let ipc = IpcNamespace::create().at(CellSetupStep::IpcNamespace)?;
        root_template::enter_root(settings, &command_user)?;
        // Dropped here once for all processes that this one starts.
        privileges::drop_bounding_set().at(CellSetupStep::BoundingSet)?;
        privileges::hide_memory().at(CellSetupStep::HideMemory)?;
        // All cells inherit this limit. The seccomp filter keeps commands from changing it.
        bare::set_rlimit(&NO_CORE_DUMPS).at(CellSetupStep::CoreDumps)?;
        let filter = SeccompFilter::new(affinity);
        bare::forbid_new_privileges().at(CellSetupStep::NoNewPrivileges)?;
        bare::install_seccomp_filter(filter.warden_program()).at(CellSetupStep::Seccomp)?;
        let mut factory = CellFactory {
            command_user,
            group,
            filter: Rc::new(filter),
            shared_folders: SharedFolders::open().at(CellSetupStep::Landlock)?,
            ipc,
            networks,
            lock,
            oom_score,
            stacks: Vec::new(),
            default_limits: settings.default_limits,
            max_open_files: settings.max_open_files,
            files: TaskFileSystem::new(settings, command_user),
            charged_file_bytes: 0,
            ready: None,
            ending_cells: Vec::new(),
        };
        factory.files.mount()?;
        factory.ready = Some(factory.start_cell(CellNetwork::Empty)?);
        // This first cell is waited for, so that the owner learns before the first command if cells cannot be
        // created.
        if let Some(cell) = &mut factory.ready {
            cell.wait_until_ready()?;
        }
        Ok(factory)
    }

    /// A descriptor of the task's folder, which contains `box`, `tmp`, `shm` and files that the task must not see.
    pub(crate) fn task_folder(&self) -> Result<OwnedFd, CellSetupError> {
        self.files.open_folder()
    }

    /// Opens a file or folder that commands have left in their workspace. The inner error is that of the file.
    pub(crate) fn open_in_workspace(
        &self,
        path: &Path,
        purpose: OpenPurpose,
    ) -> Result<Result<OwnedFd, Errno>, CellSetupError> {
        self.files.open_in_workspace(path, purpose)
    }

    /// Removes the task's files and cell, and prepares for the next task.
    pub(crate) fn reset_for_next_task(&mut self) -> Result<(), PlatformError> {
        self.files.unmount()?;
        self.charged_file_bytes = 0;
        let cells = self.ready.take().into_iter().chain(self.ending_cells.drain(..));
        let cells: Vec<Cell> = cells.collect();
        cells.into_iter().for_each(|cell| self.reap(cell));
        self.files.mount()?;
        self.ready = Some(self.start_cell(CellNetwork::Empty)?);
        Ok(())
    }

    /// Starts a cell without waiting until it is ready; it becomes ready while there is nothing to run yet.
    fn start_cell(&mut self, cell_network: CellNetwork) -> Result<Cell, PlatformError> {
        self.reap_ended_cells();
        // Memory that an earlier step left in the group must not count in this one, above all not against the process
        // that waits in the group.
        if let Some(group) = &mut self.group {
            group.reset()?;
            // The group may have been replaced; the new one does not contain the task's files.
            self.charged_file_bytes = 0;
        }
        let (warden_socket, cell_socket) = UnixStream::pair().at(CellSetupStep::Communicate)?;
        let (message_reader, message_writer) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).at(CellSetupStep::Communicate)?;
        let stacks = match self.stacks.pop() {
            Some(stacks) => stacks,
            None => CellStacks::new().at(CellSetupStep::StartInit)?,
        };
        // An earlier command may have left objects in the namespace, so that another one is needed.
        if !self.ipc.is_empty().at(CellSetupStep::IpcNamespace)? {
            self.ipc = IpcNamespace::create().at(CellSetupStep::IpcNamespace)?;
        }
        let rules = match &self.shared_folders {
            Some(shared) => LandlockRules::new(
                shared,
                &TASK_FOLDERS.map(Path::new),
                Some(self.ipc.message_queues()),
            )
            .at(CellSetupStep::Landlock)?,
            None => None,
        };
        let group = self.group.as_ref();
        let cgroup_directory = group.and_then(Cgroup::directory);
        let cgroup_to_enter = group.filter(|_| cgroup_directory.is_none());
        let context = Box::new(CellContext {
            command_user: self.command_user,
            network: cell_network,
            procs_files: cgroup_to_enter
                .into_iter()
                .flat_map(Cgroup::procs_files)
                .map(|procs_file| procs_file.as_raw_fd())
                .collect(),
            cgroup_directory: cgroup_directory.map(|group| group.as_raw_fd()),
            landlock_rules: rules.as_ref().map(AsRawFd::as_raw_fd),
            seccomp_filter: Rc::clone(&self.filter),
            stream_socket: cell_socket.as_raw_fd(),
            message_pipe: message_writer.as_raw_fd(),
            warden_ends: [warden_socket.as_raw_fd(), message_reader.as_raw_fd()],
            lock: self.lock.as_ref().map(AsRawFd::as_raw_fd),
            oom_score_file: self.oom_score.as_raw_fd(),
            exec_request: AtomicPtr::default(),
            stacks,
        });
        // SAFETY: the cell keeps the context, and is not dropped before all its processes have ended.
        let init = unsafe { context.start_init() }?;
        Ok(Cell {
            init: Pid::from_raw(init),
            streams: warden_socket,
            messages: message_reader.into(),
            state: CellState::Starting,
            has_executed: false,
            failure: None,
            exec_request: None,
            context: Some(context),
        })
    }

    fn reap_ended_cells(&mut self) {
        for cell in self
            .ending_cells
            .extract_if(.., Cell::is_reaped)
            .collect::<Vec<_>>()
        {
            self.reap(cell);
        }
    }

    /// Waits until all processes of a cell have ended.
    fn reap(&mut self, mut cell: Cell) {
        cell.kill();
        self.stacks
            .extend(cell.context.take().map(|context| context.stacks));
    }

    /// Returns a ready cell for one command: the prepared one, if its network is the right one.
    pub(crate) fn take_cell(&mut self, network: Option<&str>) -> Result<Cell, PlatformError> {
        let ready = self.ready.take();
        let mut cell = match (network, ready) {
            (None, Some(ready)) => ready,
            (None, None) => self.start_cell(CellNetwork::Empty)?,
            (Some(name), ready) => {
                // There is one group, and it must contain only one cell at a time.
                drop(ready);
                let cell_network = self.find_network(name)?;
                self.start_cell(cell_network)?
            }
        };
        cell.wait_until_ready()?;
        self.files.hand_over()?;
        Ok(cell)
    }

    /// Returns when no process of the command is left. Returns the error if the command could not be started.
    pub(crate) fn end_cell(&mut self, mut cell: Cell) -> Option<CellSetupError> {
        if cell.state != CellState::OnlyInitLeft {
            cell.read_messages();
        }
        let failure = cell.failure;
        match cell.state {
            CellState::OnlyInitLeft => self.ending_cells.push(cell),
            _ => self.reap(cell),
        }
        failure
    }

    /// Limits the total size of the task's files, until the task ends.
    pub(crate) fn set_task_space(&self, bytes: u64) -> Result<(), CellSetupError> {
        self.files.resize(bytes)
    }

    /// Whether the task's file system has no space or no inode left.
    pub(crate) fn is_task_space_full(&self) -> bool {
        self.files.is_full()
    }

    /// Applies the operator's default limits, and the maximum of open files.
    pub(crate) fn complete_limits(&self, limits: CommandLimits) -> CommandLimits {
        let limits = self.default_limits.fill_in(limits);
        let open_files = [limits.open_files, self.max_open_files];
        CommandLimits {
            open_files: open_files.into_iter().flatten().min(),
            ..limits
        }
    }

    pub(crate) fn oom_score(&self) -> &OomScore {
        &self.oom_score
    }

    pub(crate) fn group(&self) -> Option<&Cgroup> {
        self.group.as_ref()
    }

    /// Sets the limits and starts the measurements of the command of the cell that was taken.
    pub(crate) fn begin_run(&mut self, limits: CgroupLimits) -> Result<(), PlatformError> {
        match &mut self.group {
            Some(group) => {
                let memory = limits.memory.map(|bytes| {
                    let bytes = bytes.max(Cgroup::MIN_MEMORY_LIMIT);
                    bytes.saturating_add(self.charged_file_bytes)
                });
                Ok(group.begin_run(CgroupLimits { memory, ..limits })?)
            }
            None => Ok(()),
        }
    }

    fn find_network(&self, name: &str) -> Result<CellNetwork, PlatformError> {
        if name == LOOPBACK_NETWORK {
            return Ok(CellNetwork::Loopback);
        }
        let known = self.networks.iter().find(|(known, _)| known == name);
        known
            .map(|(_, namespace)| CellNetwork::Named(namespace.as_raw_fd()))
            .ok_or_else(|| PlatformError::NoSuchNetwork {
                name: name.to_string(),
            })
    }
}
