use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Capacity, ExecutorName};
use roots::RootStore;
use sandbox::SandboxOptions;

/// The settings of one executor: its data folder, slots, limits and timeouts, and how it starts wardens and cells.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// `None`: the executor uses the host name and the id in its data folder.
    pub name: Option<ExecutorName>,
    pub data: PathBuf,
    /// How many tasks run at the same time.
    pub slots: u32,
    /// Bytes of memory that must stay available to other processes on the machine.
    pub reserve: u64,
    /// The resources that a slot can give to one task.
    pub capacity: Capacity,
    /// The longest time between two reports.
    pub heartbeat: Duration,
    /// Running tasks are stopped when no judicator has answered for this long. Shorter than the lease of a session.
    pub self_kill: Duration,
    pub judicator_location: JudicatorLocation,
    /// How long a download may stand still, and how long a slot may take beyond the limits of its task, before the
    /// attempt fails.
    pub stall: Duration,
    /// How long running tasks may continue after a stop was requested.
    pub stop_grace: Duration,
    /// The size of the blob cache in bytes.
    pub cache_bytes: u64,
    /// How many bytes of each output stream are kept if the task sets no limit.
    pub keep_output: u64,
    /// How many files of a task are kept at most.
    pub keep_files: u32,
    /// How many bytes the kept files of a task have at most, together.
    pub keep_bytes: u64,
    /// How many bytes of output and kept files may wait for their upload.
    pub outgoing_bytes: u64,
    pub version: String,
    /// How cells are created. `None`: tasks run without isolation and are trusted.
    pub cells: Option<SandboxOptions>,
    /// The named root file systems in which tasks may run, if they run in cells.
    pub roots: RootStore,
    /// Whether all commands of a slot run on one CPU of their own.
    pub pin: bool,
    /// Whether an executor without cells judges tasks, although a judged program could then look for the answers.
    pub judge_without_cells: bool,
    /// The command line that starts a warden; it has to call `sandbox::warden::run`.
    pub warden: (PathBuf, Vec<OsString>),
}

/// Whether an executor's judicator runs in the same process, which decides what a report without an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudicatorLocation {
    /// In this process. A judicator does not expire a session while it handles a report of that session, and no other
    /// judicator uses the store. So a missing answer means that the store's disk is slow, and not that another executor
    /// may start the same tasks.
    SameProcess,
    /// In another process. Without an answer the executor cannot know whether its session has expired.
    Remote,
}

impl ExecutorOptions {
    /// The root file system that commands see.
    pub(crate) fn root(&self) -> &Path {
        let own = self.cells.as_ref().and_then(|cells| cells.root.as_deref());
        own.unwrap_or(Path::new("/"))
    }
}
