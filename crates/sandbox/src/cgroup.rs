//! Control groups: the kernel's limits and measures for many processes as one.
//!
//! A [`Place`] is where an executor's groups are; it is found and prepared once, by path. A [`Group`] serves one
//! run at a time and is held by descriptors, because the warden that uses it soon sees no host file any more.
//! Version 1 and 2 of the kernel's interface differ in names and in what can be set back; both are behind these
//! two types. Only groups that were made here are ever changed, except that controllers are turned on in a
//! version 2 group that was delegated to us.
//!
//! Written by hand instead of with the crate `cgroups-rs`, which works by paths (a warden has none), can neither
//! set figures back nor tell of a change, and brings D-Bus along.

mod clear;
mod find;
mod place;
mod v1;
mod v2;

mod alarm;
mod directory;
mod figure;
mod memory;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};

use crate::fault::Errno;
use crate::wire;
use directory::{Directory, Parent, write};
use figure::{Figure, keyed, number};
use memory::Memory;

pub use place::{Keeps, Place, PlaceError, Version};

/// One group, for one run at a time.
#[derive(Debug)]
pub struct Group {
    version: Version,
    parents: Vec<Parent>,
    name: String,
    files: Files,
    limits: GroupLimits,
    zero: Counters,
}

/// For all processes of a group together. What the place cannot keep (see [`Place::keeps`]) is not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Bytes. What is below [`Group::LEAST_MEMORY`] is raised to it, so whoever promises less compares the peak.
    pub memory: Option<u64>,
    /// Processes and threads at one time, at least one. Starting one more is refused, entering never is.
    pub processes: Option<u32>,
}

/// What was used since [`Group::begin`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// None where the place cannot tell.
    pub cpu: Option<Duration>,
    /// The most bytes that were held at one time, page cache and the kernel's own for these processes included.
    /// None where the place or the kernel cannot tell; then [`Group::held`] can be sampled.
    pub memory: Option<u64>,
    /// How often a process was killed for want of memory: in the group, in one above it, or on the machine. Version 2
    /// counts some twice.
    pub oom_kills: u64,
    /// Whether the group held as much as its limit allows. Also true where the kernel does not tell the peak.
    pub reached_limit: bool,
    /// Processes and threads that were not started because there were as many as may be.
    pub refused_forks: u64,
}

/// The step that failed. All are the platform's fault, and leave a group that is not to be used again.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum GroupError {
    #[error("cannot open {path:?}, beneath which control groups are made")]
    OpenPlace {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("cannot make the control group {path:?}")]
    Make {
        #[serde(with = "wire::path")]
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("there are processes in the control group {path:?} already")]
    Taken {
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
    #[error("cannot keep a control group from using swap space")]
    ForbidSwap(#[source] Errno),
    #[error("cannot have a control group killed as a whole")]
    KillWhole(#[source] Errno),
    #[error("cannot limit the memory of a control group")]
    LimitMemory(#[source] Errno),
    #[error("cannot limit what waits in the sockets of a control group")]
    LimitSockets(#[source] Errno),
    #[error("cannot limit the processes of a control group")]
    LimitProcesses(#[source] Errno),
    #[error("cannot set back the memory peak of a control group")]
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

/// So much that is still charged after a run is not worth a new group. About what the kernel charges ahead.
const WORTH: u64 = 1 << 20;

/// A memory limit from which on it cannot hinder a process that only waits.
const ROOMY: u64 = 16 << 20;

impl Group {
    /// A process that waits in a group for its run holds less than this. Version 1 refuses a limit below what is
    /// held, version 2 kills for it.
    pub const LEAST_MEMORY: u64 = 2 << 20;

    /// Where a run begins, no more than this is charged to the group already.
    pub const HELD_AT_FIRST: u64 = WORTH;

    /// A new group. It takes the place of an empty one of that name.
    pub fn make(place: &Place, name: &str) -> Result<Self, GroupError> {
        let parents = place
            .bases
            .iter()
            .map(Parent::open)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            version: place.version,
            files: Files::make(place.version, &parents, name)?,
            parents,
            name: name.to_owned(),
            limits: GroupLimits::default(),
            zero: Counters::default(),
        })
    }

    /// The same where an earlier group of that name may hold processes that were killed and hang in the kernel: then the
    /// next generation of the name is taken. The old group is used again or removed when it is empty, by the next
    /// [`Place::clear`] at the latest. So there are no more generations than runs that hang, and one.
    pub fn make_generation(place: &Place, name: &str) -> Result<Self, GroupError> {
        let mut made = Self::make(place, name);
        for name in place::generations(name).skip(1) {
            match made {
                Err(GroupError::Taken { .. }) => made = Self::make(place, &name),
                _ => break,
            }
        }
        made
    }

    /// Where a process, which must have one thread, writes `0` to move into the group: one for each hierarchy.
    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.entrances.iter().map(AsFd::as_fd)
    }

    /// The directory to give to `clone3`, so that a process is born in the group. Version 2 only.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.files.directory.as_ref().map(AsFd::as_fd)
    }

    /// Sets the limits and counts from now on. To be called when the process of the run waits in the group.
    pub fn begin(&mut self, limits: GroupLimits) -> Result<(), GroupError> {
        self.limit(GroupLimits {
            memory: limits.memory.map(|bytes| bytes.max(Self::LEAST_MEMORY)),
            processes: limits.processes.map(|most| most.max(1)),
        })?;
        if let Some(memory) = &self.files.memory {
            memory.reset_peak()?;
        }
        self.zero = self.files.counters(self.version)?;
        Ok(())
    }

    /// Only what changes, because each costs a system call or two.
    fn limit(&mut self, limits: GroupLimits) -> Result<(), GroupError> {
        if let Some(memory) = &self.files.memory
            && limits.memory != self.limits.memory
        {
            memory.limit(self.limits.memory, limits.memory)?;
        }
        if let Some(processes) = &self.files.processes
            && limits.processes != self.limits.processes
        {
            processes.limit(limits.processes)?;
        }
        self.limits = limits;
        Ok(())
    }

    pub fn cpu(&self) -> Result<Option<Duration>, GroupError> {
        let now = self.files.cpu_time(self.version)?;
        Ok(now.map(|now| now.saturating_sub(self.zero.cpu.unwrap_or_default())))
    }

    /// Whoever was told by one of the [`Group::notices`] has to call this: it makes them silent again.
    pub fn usage(&self) -> Result<Usage, GroupError> {
        let now = self.files.counters(self.version)?;
        let memory = match &self.files.memory {
            Some(memory) => memory.peak()?,
            None => None,
        };
        Ok(Usage {
            cpu: now
                .cpu
                .map(|cpu| cpu.saturating_sub(self.zero.cpu.unwrap_or_default())),
            memory,
            oom_kills: now.oom_kills.saturating_sub(self.zero.oom_kills),
            reached_limit: reaches(memory, self.limits.memory),
            refused_forks: now.refused_forks.saturating_sub(self.zero.refused_forks),
        })
    }

    pub fn keeps_memory(&self) -> bool {
        self.files.memory.is_some()
    }

    /// Bytes held now.
    pub fn held(&self) -> Result<Option<u64>, GroupError> {
        self.files.memory.as_ref().map(Memory::held).transpose()
    }

    /// To be polled: ready when memory ran out or, with version 2 only, when a fork was refused. Also ready for
    /// lesser events, so that only the usage tells which it was.
    pub fn notices(&self) -> impl Iterator<Item = PollFd<'_>> {
        let memory = self.files.memory.as_ref().and_then(Memory::notice);
        // Version 1 has the file, but its kernels stopped telling of a change.
        let forks = self
            .files
            .processes
            .as_ref()
            .filter(|_| self.version == Version::V2);
        let forks = forks.map(|processes| PollFd::new(processes.events.as_fd(), PollFlags::POLLPRI));
        memory.into_iter().chain(forks)
    }

    /// After a run, when all its processes are gone: makes the group as good as new.
    ///
    /// Where a figure cannot be set back, or where page cache of the last run would count in the next one, that
    /// takes a new group. The cache is not thrown away instead: it may well be that of the compiler which the
    /// next run needs too.
    pub fn settle(&mut self) -> Result<(), GroupError> {
        let is_as_new = match &self.files.memory {
            Some(memory) => memory.is_as_new(WORTH)?,
            None => true,
        };
        if is_as_new {
            let GroupLimits { memory, processes } = self.limits;
            self.limit(GroupLimits {
                memory: memory.filter(|bytes| *bytes >= ROOMY),
                processes,
            })?;
            return Ok(());
        }
        for parent in &self.parents {
            parent.remove(&self.name)?;
        }
        self.files = Files::make(self.version, &self.parents, &self.name)?;
        self.limits = GroupLimits::default();
        Ok(())
    }

    /// Until the next [`Group::begin`].
    pub fn lift_memory(&mut self) -> Result<(), GroupError> {
        self.limit(GroupLimits {
            memory: None,
            ..self.limits
        })
    }

    /// No process may be left in it.
    pub fn remove(self) -> Result<(), GroupError> {
        self.parents
            .iter()
            .try_for_each(|parent| parent.remove(&self.name))
    }
}

/// The kernel charges in batches, so that a group whose memory runs out may hold a little less than its limit.
fn reaches(peak: Option<u64>, limit: Option<u64>) -> bool {
    const BATCH: u64 = 1 << 20;
    match (peak, limit) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(peak), Some(limit)) => peak.saturating_add(BATCH) >= limit,
    }
}

/// What of the kernel's figures only ever grows.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    cpu: Option<Duration>,
    oom_kills: u64,
    refused_forks: u64,
}

/// All that is open of a group.
#[derive(Debug)]
struct Files {
    directory: Option<OwnedFd>,
    entrances: Vec<File>,
    memory: Option<Memory>,
    processes: Option<Processes>,
    cpu: Option<Figure>,
}

impl Files {
    fn make(version: Version, parents: &[Parent], name: &str) -> Result<Self, GroupError> {
        let mut files = Self {
            directory: None,
            entrances: Vec::new(),
            memory: None,
            processes: None,
            cpu: None,
        };
        for parent in parents {
            let directory = parent.make(name)?;
            files
                .entrances
                .push(directory.open_to_write(entrance_of(version))?);
            for controller in &parent.keeps {
                match controller {
                    Controller::Memory => files.memory = Some(Memory::open(version, &directory)?),
                    Controller::Processes => files.processes = Some(Processes::open(&directory)?),
                    Controller::Cpu => files.cpu = Some(directory.figure(cpu_figure_of(version))?),
                    Controller::Share => {}
                }
            }
            if version == Version::V2 {
                files.directory = Some(directory.fd);
            }
        }
        Ok(files)
    }

    fn cpu_time(&self, version: Version) -> Result<Option<Duration>, GroupError> {
        let Some(figure) = &self.cpu else { return Ok(None) };
        let time = match version {
            Version::V1 => Duration::from_nanos(figure.read(number)?),
            Version::V2 => Duration::from_micros(figure.read(|text| keyed(text, "usage_usec"))?),
        };
        Ok(Some(time))
    }

    fn counters(&self, version: Version) -> Result<Counters, GroupError> {
        Ok(Counters {
            cpu: self.cpu_time(version)?,
            oom_kills: self.memory.as_ref().map_or(Ok(0), Memory::oom_kills)?,
            refused_forks: self.processes.as_ref().map_or(Ok(0), Processes::refused)?,
        })
    }
}

/// Version 1 has two, and moving one thread through `tasks` does not wait for every processor of the machine.
fn entrance_of(version: Version) -> &'static str {
    match version {
        Version::V1 => "tasks",
        Version::V2 => "cgroup.procs",
    }
}

fn cpu_figure_of(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpuacct.usage",
        Version::V2 => "cpu.stat",
    }
}

/// The same in both versions.
#[derive(Debug)]
struct Processes {
    max: File,
    events: Figure,
}

impl Processes {
    fn open(directory: &Directory) -> Result<Self, GroupError> {
        Ok(Self {
            max: directory.open_to_write("pids.max")?,
            events: directory.figure("pids.events")?,
        })
    }

    fn limit(&self, most: Option<u32>) -> Result<(), GroupError> {
        // No more can be on any machine, and the kernel refuses to write it down.
        const MOST: u32 = 1 << 22;
        let most = most.filter(|most| *most <= MOST);
        let text = most.map_or("max".to_owned(), |most| most.to_string());
        write(&self.max, text.as_bytes()).map_err(GroupError::LimitProcesses)
    }

    fn refused(&self) -> Result<u64, GroupError> {
        self.events.read(|text| keyed(text, "max"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Controller {
    Processes,
    Memory,
    /// Counts CPU time.
    Cpu,
    /// Divides it: by groups, and not by processes. Every new group has the same weight.
    Share,
}
