//! The control group that contains the groups of one executor.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::hierarchy::{CgroupHierarchy, find_hierarchy};
use super::{CgroupController, clear, v1, v2};
use crate::wire;

/// The control group, one directory in each hierarchy, in which an executor's wardens create their groups. The
/// executor prepares it when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupRoot {
    pub(super) version: CgroupVersion,
    pub(super) directories: Vec<RootDirectory>,
}

/// The version of the kernel's cgroup interface that the sandbox uses on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupVersion {
    V1,
    V2,
}

impl fmt::Display for CgroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        })
    }
}

/// What the control groups of a [`CgroupRoot`] can limit and measure on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupFeatures {
    pub version: CgroupVersion,
    pub memory: bool,
    pub processes: bool,
    pub cpu: bool,
    /// Whether each group gets an equal share of the processors, regardless of its number of processes.
    pub cpu_share: bool,
    /// Whether the kernel reports the memory peak of a group.
    pub memory_peak: bool,
}

/// The directory of a [`CgroupRoot`] in one cgroup hierarchy, with the controllers that are used there. This crate
/// creates it and owns everything beneath it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RootDirectory {
    #[serde(with = "wire::path")]
    pub(super) path: PathBuf,
    pub(super) controllers: Vec<CgroupController>,
}

/// Why an executor could not prepare, clear or remove the [`CgroupRoot`] of its wardens.
#[derive(Debug, thiserror::Error)]
pub enum CgroupRootError {
    #[error("{0:?} is not a valid name of a control group: it must be a single path component")]
    InvalidName(String),
    #[error("cannot read {path} to find the control groups")]
    ReadProcFile {
        path: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(
        "no control groups found: neither cgroup v2 nor the memory, pids or cpuacct controller of cgroup v1 is mounted \
         with the group of this process visible; mount cgroup2 on /sys/fs/cgroup, and in a container make it visible"
    )]
    NotMounted,
    #[error("the control group {0:?} does not exist: create it, or choose another one (sandbox.cgroup)")]
    NoSuchParent(PathBuf),
    #[error(
        "this process may not create groups in the control group {0:?}: run it as root, or in a unit with Delegate=yes \
         (by hand: `systemd-run --user --scope -p Delegate=yes COMMAND`), or in a container that may write to \
         /sys/fs/cgroup"
    )]
    NotDelegated(PathBuf),
    #[error("cannot enable controllers in the control group {path:?}")]
    Enable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot move the processes of the control group {path:?} into a subgroup")]
    MoveProcesses {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "cannot create the control group {path:?}: this needs root, or a group that is delegated to this user (with cgroup \
         v2, a unit with Delegate=yes)"
    )]
    Create {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot set the CPU weight of the control group {path:?}")]
    SetCpuWeight {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot list the control group {path:?}")]
    List {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot remove the control group {path:?}")]
    Remove {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("processes in the control groups {0:?} were sent SIGKILL and do not end")]
    StuckProcesses(Vec<PathBuf>),
}

impl CgroupRoot {
    /// Finds or creates the cgroup root of this name, which must be unique to this executor: everything in it is
    /// treated as its own. It is created in the control group of this process; with version 2, root creates it in the
    /// top group if its own group was not delegated. `parent` names another group instead, in the form of
    /// `/proc/self/cgroup`.
    ///
    /// With version 2 this may move this process, and others of its delegated group, into a subgroup, because a group
    /// with subgroups must not contain processes. So it must be called before any process is started.
    pub fn prepare(name: &str, parent: Option<&Path>) -> Result<Self, CgroupRootError> {
        if !is_single_component(name) {
            return Err(CgroupRootError::InvalidName(name.to_owned()));
        }
        let mountinfo = read_proc_file("/proc/self/mountinfo")?;
        let memberships = read_proc_file("/proc/self/cgroup")?;
        let find = |hierarchy| find_hierarchy(&mountinfo, &memberships, hierarchy);
        // A machine with controllers in version 1 may also have version 2 mounted, without controllers.
        let v1_directories = v1::prepare(&find, name, parent)?;
        if !v1_directories.is_empty() {
            return Ok(Self {
                version: CgroupVersion::V1,
                directories: v1_directories,
            });
        }
        let unified = find(CgroupHierarchy::Unified).ok_or(CgroupRootError::NotMounted)?;
        Ok(Self {
            version: CgroupVersion::V2,
            directories: vec![v2::prepare(&unified, name, parent)?],
        })
    }

    pub fn features(&self) -> CgroupFeatures {
        let has = |controller| {
            self.directories
                .iter()
                .any(|directory| directory.controllers.contains(&controller))
        };
        CgroupFeatures {
            version: self.version,
            memory: has(CgroupController::Memory),
            processes: has(CgroupController::Pids),
            cpu: has(CgroupController::CpuTime),
            cpu_share: has(CgroupController::CpuShare),
            memory_peak: self.version == CgroupVersion::V1
                || self
                    .directories
                    .iter()
                    .any(|directory| directory.path.join("memory.peak").exists()),
        }
    }

    /// The path of each directory, one for each hierarchy.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|directory| directory.path.as_path())
    }

    /// Kills and removes everything that an earlier process of this executor left behind, and returns the number of
    /// killed processes. No other process of this executor may be running.
    pub fn clear(&self) -> Result<usize, CgroupRootError> {
        clear::clear(self.paths())
    }

    /// Kills all processes in every generation of the group of this name, without waiting until they end.
    pub(crate) fn kill_group(&self, name: &str) {
        for directory in self.paths() {
            let groups = fs::read_dir(directory).into_iter().flatten().flatten();
            for group in groups.filter(|group| is_generation_of(name, &group.file_name())) {
                clear::kill(&group.path());
            }
        }
    }

    /// Locks the directories, to show other processes that the owner is alive as long as the result exists.
    pub(crate) fn lock(&self) -> io::Result<Vec<Flock<File>>> {
        self.directories
            .iter()
            .filter_map(|directory| try_lock(&directory.path).transpose())
            .collect()
    }

    /// Removes sibling groups whose name is this prefix, a process id and a dash, if they are not locked. A group
    /// whose process still exists is kept: the process may be about to lock it.
    pub(crate) fn remove_abandoned(&self, prefix: &str) {
        for directory in &self.directories {
            let beside = directory
                .path
                .parent()
                .and_then(|parent| fs::read_dir(parent).ok());
            for entry in beside.into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(prefix)?.split('-').next());
                let is_gone =
                    |owner: &str| owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists();
                if owner.is_some_and(is_gone)
                    && let Ok(Some(_lock)) = try_lock(&entry.path())
                {
                    let _ = clear::clear([&*entry.path()]).and_then(|_| clear::remove(&entry.path()));
                }
            }
        }
    }

    /// Removes the cgroup root and everything in it.
    pub fn remove(self) -> Result<(), CgroupRootError> {
        self.clear()?;
        self.directories
            .into_iter()
            .try_for_each(|directory| clear::remove(&directory.path))
    }
}

/// The names that a group may get, in the order in which they are tried: `slot-1`, `slot-1.2`, `slot-1.3`, ...
pub(super) fn generations(name: &str) -> impl Iterator<Item = String> {
    let later = (2_u64..).map(move |generation| format!("{name}.{generation}"));
    std::iter::once(name.to_owned()).chain(later)
}

fn is_generation_of(name: &str, group: &OsStr) -> bool {
    let rest = group.to_str().and_then(|group| group.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns `None` if another process holds the lock.
fn try_lock(group: &Path) -> io::Result<Option<Flock<File>>> {
    match Flock::lock(File::open(group)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Creates a group if it does not exist.
pub(super) fn create_group(path: &Path) -> Result<(), CgroupRootError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(CgroupRootError::Create {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

fn read_proc_file(path: &'static str) -> Result<Vec<u8>, CgroupRootError> {
    fs::read(path).map_err(|source| CgroupRootError::ReadProcFile { path, source })
}

fn is_single_component(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.next() == Some(Component::Normal(name.as_ref())) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_a_single_path_component() {
        fn check(name: &str, expected: bool) {
            assert_eq!(is_single_component(name), expected, "{name:?}");
        }
        check("conclave-3f2a", true);
        check("", false);
        check(".", false);
        check("..", false);
        check("/a", false);
        check("a/b", false);
        check("a/", false);
        check("../a", false);
    }

    #[test]
    fn every_generation_of_a_group_is_recognised_by_its_name() {
        let names: Vec<_> = generations("slot-1").take(3).collect();
        assert_eq!(names, ["slot-1", "slot-1.2", "slot-1.3"]);
        assert!(names.iter().all(|name| is_generation_of("slot-1", name.as_ref())));
        for other in ["slot-10", "slot-10.2", "slot-2", "slot"] {
            assert!(!is_generation_of("slot-1", other.as_ref()), "{other}");
        }
    }
}
