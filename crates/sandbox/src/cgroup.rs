//! Control groups (cgroups): limits and measurements for many processes together.
//!
//! A [`CgroupRoot`] contains the groups of an executor; it is found and prepared once, by path. A [`Cgroup`] serves
//! one run at a time. It is held by descriptors, because its warden has no path to the cgroup file system once it is
//! in its own root. Version 1 and version 2 of the kernel's interface differ in names and in what can be reset; both
//! are behind these two types. Only groups that were created here are ever changed, except that controllers are
//! enabled in a version 2 group that was delegated to this process.
//!
//! The crate `cgroups-rs` does not fit: it works by paths, can neither reset measurements nor wait for events, and
//! depends on D-Bus.

mod clear;
mod hierarchy;
mod root;
mod v1;
mod v2;

mod directory;
mod memory;
mod oom_eventfd;
mod stat_file;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};

use crate::platform_error::Errno;
use crate::wire;
use directory::{CgroupDirectory, OpenRootDirectory, write};
use memory::MemoryFiles;
use stat_file::{StatFile, parse_keyed, parse_number};

pub use root::{CgroupFeatures, CgroupRoot, CgroupRootError, CgroupVersion};

/// A control group (cgroup v1 or v2) of a warden, which limits and measures one run of a command at a time.
#[derive(Debug)]
pub struct Cgroup {
    version: CgroupVersion,
    parents: Vec<OpenRootDirectory>,
    name: String,
    files: CgroupFiles,
    limits: CgroupLimits,
    baseline: CgroupCounters,
}

/// The memory and process limits of all processes of a control group together. A limit is not enforced if its
/// controller is missing: see [`CgroupRoot::features`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Bytes. A value below [`Cgroup::MIN_MEMORY_LIMIT`] is raised to it, so a caller with a lower limit must compare
    /// the peak itself.
    pub memory: Option<u64>,
    /// Processes and threads at the same time, at least one. Starting one more fails; moving one into the group never
    /// does.
    pub processes: Option<u32>,
}

/// What the processes of a control group have used since [`Cgroup::begin_run`]: CPU time, peak memory, OOM kills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// CPU time. `None` if the controller is missing.
    pub cpu: Option<Duration>,
    /// The peak in bytes, including page cache and the kernel memory of these processes. `None` if the controller is
    /// missing or the kernel does not report it; then [`Cgroup::current_memory`] can be sampled.
    pub memory: Option<u64>,
    /// How many processes the kernel killed because memory ran out: in the group, in a group above it, or on the
    /// machine. Version 2 counts some of them twice.
    pub oom_kills: u64,
    /// Whether the group held as much memory as its limit allows. Also true if the kernel does not report the peak.
    pub reached_memory_limit: bool,
    /// How often a process or thread was not started because of the limit.
    pub refused_forks: u64,
}

/// Why a warden's operation on its control group failed. The platform is always the cause, and the group must not be
/// used again.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CgroupError {
    #[error("cannot open the control group {path:?}, in which groups are created")]
    OpenRoot {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot create the control group {path:?}")]
    Create {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("the control group {path:?} already contains processes")]
    Occupied {
        #[serde(with = "wire::path")]
        path: PathBuf,
    },
    #[error("cannot open {path:?}")]
    Open {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot disable swap for a control group")]
    ForbidSwap(#[source] Errno),
    #[error("cannot set memory.oom.group of a control group")]
    SetOomGroup(#[source] Errno),
    #[error("cannot limit the memory of a control group")]
    LimitMemory(#[source] Errno),
    #[error("cannot limit the socket memory of a control group")]
    LimitSockets(#[source] Errno),
    #[error("cannot limit the processes of a control group")]
    LimitProcesses(#[source] Errno),
    #[error("cannot reset the memory peak of a control group")]
    ResetPeak(#[source] Errno),
    #[error("cannot read {file} of a control group")]
    Read {
        file: String,
        #[source]
        errno: Errno,
    },
    #[error("cannot remove the control group {path:?}")]
    Remove {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
}

/// A group with more than this much memory still charged after a run is replaced. About as much as the kernel charges
/// in advance.
const MAX_LEFTOVER_MEMORY: u64 = 1 << 20;

/// A memory limit from this value on does not affect a process that only waits for its run.
const MIN_WAITING_MEMORY_LIMIT: u64 = 16 << 20;

impl Cgroup {
    /// A process that waits in a group for its run holds less than this. Version 1 refuses a limit below the memory
    /// held; version 2 kills processes to reach it.
    pub const MIN_MEMORY_LIMIT: u64 = 2 << 20;

    /// At most this much is already charged to the group when a run begins.
    pub const MAX_INITIAL_MEMORY: u64 = MAX_LEFTOVER_MEMORY;

    /// Creates a new group, which replaces an empty one of the same name.
    pub fn create(cgroup_root: &CgroupRoot, name: &str) -> Result<Self, CgroupError> {
        let parents = cgroup_root
            .directories
            .iter()
            .map(OpenRootDirectory::open)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            version: cgroup_root.version,
            files: CgroupFiles::create(cgroup_root.version, &parents, name)?,
            parents,
            name: name.to_owned(),
            limits: CgroupLimits::default(),
            baseline: CgroupCounters::default(),
        })
    }

    /// Like [`Cgroup::create`], for a name whose earlier group may contain processes that were killed and hang in the
    /// kernel. Then the group gets the next generation of the name. The old group is reused or removed once it is
    /// empty, at the latest by the next [`CgroupRoot::clear`]. So there is at most one generation more than runs that
    /// hang.
    pub fn create_generation(cgroup_root: &CgroupRoot, name: &str) -> Result<Self, CgroupError> {
        let mut made = Self::create(cgroup_root, name);
        for name in root::generations(name).skip(1) {
            match made {
                Err(CgroupError::Occupied { .. }) => made = Self::create(cgroup_root, &name),
                _ => break,
            }
        }
        made
    }

    /// The files to which a single-threaded process writes `0` to move itself into the group, one for each hierarchy.
    pub fn procs_files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.procs_files.iter().map(AsFd::as_fd)
    }

    /// The directory to pass to `clone3`, so that a process starts in the group. Version 2 only.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.files.directory.as_ref().map(AsFd::as_fd)
    }

    /// Sets the limits and starts the measurements. The process of the run must already wait in the group.
    pub fn begin_run(&mut self, limits: CgroupLimits) -> Result<(), CgroupError> {
        self.set_limits(CgroupLimits {
            memory: limits.memory.map(|bytes| bytes.max(Self::MIN_MEMORY_LIMIT)),
            processes: limits.processes.map(|most| most.max(1)),
        })?;
        if let Some(memory) = &self.files.memory {
            memory.reset_peak()?;
        }
        self.baseline = self.files.counters(self.version)?;
        Ok(())
    }

    /// Writes only the limits that change, because each write costs one or two system calls.
    fn set_limits(&mut self, limits: CgroupLimits) -> Result<(), CgroupError> {
        if let Some(memory) = &self.files.memory
            && limits.memory != self.limits.memory
        {
            memory.set_limit(self.limits.memory, limits.memory)?;
        }
        if let Some(processes) = &self.files.processes
            && limits.processes != self.limits.processes
        {
            processes.set_limit(limits.processes)?;
        }
        self.limits = limits;
        Ok(())
    }

    pub fn cpu(&self) -> Result<Option<Duration>, CgroupError> {
        let now = self.files.cpu_time(self.version)?;
        Ok(now.map(|now| now.saturating_sub(self.baseline.cpu.unwrap_or_default())))
    }

    /// Reads the usage. This also clears the events of [`Cgroup::event_descriptors`], so it must be called after each
    /// of them.
    pub fn usage(&self) -> Result<CgroupUsage, CgroupError> {
        let now = self.files.counters(self.version)?;
        let memory = match &self.files.memory {
            Some(memory) => memory.peak()?,
            None => None,
        };
        Ok(CgroupUsage {
            cpu: now
                .cpu
                .map(|cpu| cpu.saturating_sub(self.baseline.cpu.unwrap_or_default())),
            memory,
            oom_kills: now.oom_kills.saturating_sub(self.baseline.oom_kills),
            reached_memory_limit: reached_limit(memory, self.limits.memory),
            refused_forks: now.refused_forks.saturating_sub(self.baseline.refused_forks),
        })
    }

    pub fn limits_memory(&self) -> bool {
        self.files.memory.is_some()
    }

    /// The bytes charged to the group now.
    pub fn current_memory(&self) -> Result<Option<u64>, CgroupError> {
        self.files.memory.as_ref().map(MemoryFiles::current).transpose()
    }

    /// Descriptors to poll. They become ready when memory runs out and, with version 2 only, when a fork is refused.
    /// Lesser events make them ready too, so the caller has to read the usage.
    pub fn event_descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let memory = self.files.memory.as_ref().and_then(MemoryFiles::oom_notification);
        // Version 1 has the file too, but its kernels no longer report changes of it.
        let forks = self
            .files
            .processes
            .as_ref()
            .filter(|_| self.version == CgroupVersion::V2);
        let forks = forks.map(|processes| PollFd::new(processes.events.as_fd(), PollFlags::POLLPRI));
        memory.into_iter().chain(forks)
    }

    /// Makes the group usable for the next run, after all processes of the last run have ended.
    ///
    /// If the peak cannot be reset, or if page cache of the last run would count in the next one, the group is
    /// replaced. The cache is not dropped instead: it may belong to the compiler, which the next run needs too.
    pub fn reset(&mut self) -> Result<(), CgroupError> {
        let is_pristine = match &self.files.memory {
            Some(memory) => memory.is_pristine(MAX_LEFTOVER_MEMORY)?,
            None => true,
        };
        if is_pristine {
            let CgroupLimits { memory, processes } = self.limits;
            self.set_limits(CgroupLimits {
                memory: memory.filter(|bytes| *bytes >= MIN_WAITING_MEMORY_LIMIT),
                processes,
            })?;
            return Ok(());
        }
        for parent in &self.parents {
            parent.remove(&self.name)?;
        }
        self.files = CgroupFiles::create(self.version, &self.parents, &self.name)?;
        self.limits = CgroupLimits::default();
        Ok(())
    }

    /// Removes the memory limit until the next [`Cgroup::begin_run`].
    pub fn lift_memory_limit(&mut self) -> Result<(), CgroupError> {
        self.set_limits(CgroupLimits {
            memory: None,
            ..self.limits
        })
    }

    /// Removes the group, which must not contain any process.
    pub fn remove(self) -> Result<(), CgroupError> {
        self.parents
            .iter()
            .try_for_each(|parent| parent.remove(&self.name))
    }
}

/// The kernel charges memory in batches, so a group whose memory runs out may hold a little less than its limit.
fn reached_limit(peak: Option<u64>, limit: Option<u64>) -> bool {
    const BATCH: u64 = 1 << 20;
    match (peak, limit) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(peak), Some(limit)) => peak.saturating_add(BATCH) >= limit,
    }
}

/// Counters of a control group that cannot be reset, so that a run's use is their difference to a baseline.
#[derive(Debug, Clone, Copy, Default)]
struct CgroupCounters {
    cpu: Option<Duration>,
    oom_kills: u64,
    refused_forks: u64,
}

/// The open directory and files of one control group, through which a warden enters, limits and measures it.
#[derive(Debug)]
struct CgroupFiles {
    directory: Option<OwnedFd>,
    procs_files: Vec<File>,
    memory: Option<MemoryFiles>,
    processes: Option<PidsFiles>,
    cpu: Option<StatFile>,
}

impl CgroupFiles {
    fn create(
        version: CgroupVersion,
        parents: &[OpenRootDirectory],
        name: &str,
    ) -> Result<Self, CgroupError> {
        let mut files = Self {
            directory: None,
            procs_files: Vec::new(),
            memory: None,
            processes: None,
            cpu: None,
        };
        for parent in parents {
            let directory = parent.create(name)?;
            files
                .procs_files
                .push(directory.open_to_write(procs_file_name(version))?);
            for controller in &parent.controllers {
                match controller {
                    CgroupController::Memory => files.memory = Some(MemoryFiles::open(version, &directory)?),
                    CgroupController::Pids => files.processes = Some(PidsFiles::open(&directory)?),
                    CgroupController::CpuTime => {
                        files.cpu = Some(directory.open_stat_file(cpu_stat_file_name(version))?)
                    }
                    CgroupController::CpuShare => {}
                }
            }
            if version == CgroupVersion::V2 {
                files.directory = Some(directory.fd);
            }
        }
        Ok(files)
    }

    fn cpu_time(&self, version: CgroupVersion) -> Result<Option<Duration>, CgroupError> {
        let Some(stat_file) = &self.cpu else {
            return Ok(None);
        };
        let time = match version {
            CgroupVersion::V1 => Duration::from_nanos(stat_file.read(parse_number)?),
            CgroupVersion::V2 => {
                Duration::from_micros(stat_file.read(|text| parse_keyed(text, "usage_usec"))?)
            }
        };
        Ok(Some(time))
    }

    fn counters(&self, version: CgroupVersion) -> Result<CgroupCounters, CgroupError> {
        Ok(CgroupCounters {
            cpu: self.cpu_time(version)?,
            oom_kills: self.memory.as_ref().map_or(Ok(0), MemoryFiles::oom_kills)?,
            refused_forks: self.processes.as_ref().map_or(Ok(0), PidsFiles::refused_forks)?,
        })
    }
}

/// Version 1 has two such files. Moving one thread through `tasks` does not wait for every processor of the machine.
fn procs_file_name(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "tasks",
        CgroupVersion::V2 => "cgroup.procs",
    }
}

fn cpu_stat_file_name(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => "cpuacct.usage",
        CgroupVersion::V2 => "cpu.stat",
    }
}

/// The open files of the pids controller of one control group, which are the same in cgroup v1 and v2.
#[derive(Debug)]
struct PidsFiles {
    max: File,
    events: StatFile,
}

impl PidsFiles {
    fn open(directory: &CgroupDirectory) -> Result<Self, CgroupError> {
        Ok(Self {
            max: directory.open_to_write("pids.max")?,
            events: directory.open_stat_file("pids.events")?,
        })
    }

    fn set_limit(&self, most: Option<u32>) -> Result<(), CgroupError> {
        // No machine can have more, and the kernel rejects larger values.
        const MAX_PROCESSES: u32 = 1 << 22;
        let most = most.filter(|most| *most <= MAX_PROCESSES);
        let text = most.map_or("max".to_owned(), |most| most.to_string());
        write(&self.max, text.as_bytes()).map_err(CgroupError::LimitProcesses)
    }

    fn refused_forks(&self) -> Result<u64, CgroupError> {
        self.events.read(|text| parse_keyed(text, "max"))
    }
}

/// A cgroup controller that limits or measures commands, named by what it does for the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum CgroupController {
    Pids,
    Memory,
    /// Measures CPU time.
    CpuTime,
    /// Divides CPU time between groups instead of processes. Every new group has the same weight.
    CpuShare,
}
