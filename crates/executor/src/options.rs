use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Capacity, ExecutorName};
use sandbox::CellPlan;

#[derive(Clone, Debug)]
pub struct Options {
    /// `None` for the host's name and a number that the data folder keeps.
    pub name: Option<ExecutorName>,
    pub data: PathBuf,
    /// How many tasks run at one time.
    pub slots: u32,
    /// Bytes of memory that tasks leave to everyone else on the machine.
    pub reserve: u64,
    /// What a slot can give to a task.
    pub capacity: Capacity,
    /// The longest time between two reports.
    pub heartbeat: Duration,
    /// Without an answer for so long, the tasks are stopped. Below the lease.
    pub self_kill: Duration,
    pub contact: Contact,
    /// For how long a transfer may bring no byte, and a slot may take beyond the limits of its task, before the attempt
    /// is given up.
    pub stall: Duration,
    /// How long running tasks may go on after a stop was asked for.
    pub stop_grace: Duration,
    /// How many bytes of blobs are kept for later tasks.
    pub cache_bytes: u64,
    /// How many bytes of each output are kept where the task sets no limit.
    pub keep_output: u64,
    pub version: String,
    /// How the cells are made that tasks run in. None: there are none, and tasks are trusted.
    pub cells: Option<CellPlan>,
    /// A program and arguments that end up in `sandbox::warden::run`.
    pub warden: (PathBuf, Vec<OsString>),
}

/// Where the judicator is, and so what it means that a report is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// A call in this process. No judicator ends a session while it works on a report of it, and here the one that
    /// works on it is the only one: an answer that does not come means that the store's disk does not, and not that
    /// another executor may begin the tasks.
    SameProcess,
    /// Another process, over a network that may be cut: without an answer nobody knows what the others think.
    Remote,
}

impl Options {
    /// Of the files that commands see.
    pub(crate) fn root(&self) -> &Path {
        let own = self.cells.as_ref().and_then(|cells| cells.root.as_deref());
        own.unwrap_or(Path::new("/"))
    }
}
