//! Where the groups of one executor are.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::find::{Hierarchy, find};
use super::{Controller, clear, v1, v2};
use crate::wire;

/// Prepared by an executor at its start, then handed to its wardens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub(super) version: Version,
    pub(super) bases: Vec<Base>,
}

/// Which of the kernel's two interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    V1,
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        })
    }
}

/// What the groups of a place limit and measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    pub by: Version,
    pub memory: bool,
    pub processes: bool,
    pub cpu: bool,
    /// Whether processors are divided evenly between groups, however many processes each has.
    pub share: bool,
    /// Whether the kernel tells the most memory that a group has held.
    pub peak: bool,
}

/// A directory that was made by us, and all beneath it is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    #[serde(with = "wire::path")]
    pub(super) path: PathBuf,
    pub(super) keeps: Vec<Controller>,
}

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("{0:?} cannot be the name of a control group: it has to be the name of one directory")]
    Name(String),
    #[error("cannot read {path}, which tells where control groups are")]
    Look {
        path: &'static str,
        #[source]
        source: io::Error,
    },
    #[error(
        "there are no control groups: neither cgroup v2 nor the memory, pids or cpuacct controller of cgroup v1 is \
         mounted where it shows this process; mount cgroup2 on /sys/fs/cgroup, and in a container make it visible"
    )]
    NotMounted,
    #[error("there is no control group {0:?} to make others in: make it, or name another one")]
    NoSuchParent(PathBuf),
    #[error(
        "the control group {0:?} may not be divided by this process: run it as root, or in a unit with Delegate=yes \
         (by hand: `systemd-run --user --scope -p Delegate=yes COMMAND`), or in a container that may write to \
         /sys/fs/cgroup"
    )]
    NotDelegated(PathBuf),
    #[error("cannot turn on controllers in the control group {path:?}")]
    Enable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot move the processes of the control group {path:?} into one of their own beneath it")]
    Vacate {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "cannot make the control group {path:?}: that takes root, or a group that was given to this user (with cgroup v2, \
         a unit with Delegate=yes)"
    )]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot set the share of the processors of the control group {path:?}")]
    Weigh {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot see what is in the control group {path:?}")]
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
    Remains(Vec<PathBuf>),
}

impl Place {
    /// Finds or makes the place of that name, which must be unique to this executor: all that is in it will be
    /// taken for its own. It is beneath the control group of this process or, with version 2 and for root only,
    /// at the top where the own group was not delegated; `parent` names another group instead, as
    /// `/proc/self/cgroup` does.
    ///
    /// With version 2 this may move the process, and those that share its delegated group, into a group beneath,
    /// because a group that others are made in must be empty. So it has to be called before any is started.
    pub fn prepare(name: &str, parent: Option<&Path>) -> Result<Self, PlaceError> {
        if !is_one_name(name) {
            return Err(PlaceError::Name(name.to_owned()));
        }
        let mountinfo = look("/proc/self/mountinfo")?;
        let memberships = look("/proc/self/cgroup")?;
        let find = |hierarchy| find(&mountinfo, &memberships, hierarchy);
        // A machine that still has controllers in version 1 may have an empty version 2 beside it.
        let first = v1::prepare(&find, name, parent)?;
        if !first.is_empty() {
            return Ok(Self {
                version: Version::V1,
                bases: first,
            });
        }
        let unified = find(Hierarchy::Unified).ok_or(PlaceError::NotMounted)?;
        Ok(Self {
            version: Version::V2,
            bases: vec![v2::prepare(&unified, name, parent)?],
        })
    }

    pub fn keeps(&self) -> Keeps {
        let keeps = |controller| self.bases.iter().any(|base| base.keeps.contains(&controller));
        Keeps {
            by: self.version,
            memory: keeps(Controller::Memory),
            processes: keeps(Controller::Processes),
            cpu: keeps(Controller::Cpu),
            share: keeps(Controller::Share),
            peak: self.version == Version::V1
                || self
                    .bases
                    .iter()
                    .any(|base| base.path.join("memory.peak").exists()),
        }
    }

    /// One for each hierarchy.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.bases.iter().map(|base| base.path.as_path())
    }

    /// Kills and removes what an earlier life left in it, and says how many processes there were. To be called
    /// when no other life can be at work.
    pub fn clear(&self) -> Result<usize, PlaceError> {
        clear::clear(self.directories())
    }

    /// Kills all processes in every generation of the group of this name, without waiting for their end.
    pub(crate) fn kill(&self, name: &str) {
        for base in self.directories() {
            let groups = fs::read_dir(base).into_iter().flatten().flatten();
            for group in groups.filter(|group| is_generation_of(name, &group.file_name())) {
                clear::kill(&group.path());
            }
        }
    }

    /// Says to others that its owner is alive, for as long as the result is held.
    pub(crate) fn hold(&self) -> io::Result<Vec<Flock<File>>> {
        self.bases
            .iter()
            .filter_map(|base| try_hold(&base.path).transpose())
            .collect()
    }

    /// Removes what is beside it with such a name, then the number of a process and a dash, and is held by nobody.
    /// Where there is a process of that number, it may be about to hold it.
    pub(crate) fn remove_abandoned(&self, prefix: &str) {
        for base in &self.bases {
            let beside = base.path.parent().and_then(|parent| fs::read_dir(parent).ok());
            for entry in beside.into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(prefix)?.split('-').next());
                let is_gone =
                    |owner: &str| owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists();
                if owner.is_some_and(is_gone)
                    && let Ok(Some(_held)) = try_hold(&entry.path())
                {
                    let _ = clear::clear([&*entry.path()]).and_then(|_| clear::remove(&entry.path()));
                }
            }
        }
    }

    /// With all that is in it.
    pub fn remove(self) -> Result<(), PlaceError> {
        self.clear()?;
        self.bases
            .into_iter()
            .try_for_each(|base| clear::remove(&base.path))
    }
}

/// The names that a group may have, in the order in which they are tried: `slot-1`, `slot-1.2`, `slot-1.3`, ...
pub(super) fn generations(name: &str) -> impl Iterator<Item = String> {
    let later = (2_u64..).map(move |generation| format!("{name}.{generation}"));
    std::iter::once(name.to_owned()).chain(later)
}

fn is_generation_of(name: &str, group: &OsStr) -> bool {
    let rest = group.to_str().and_then(|group| group.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// None if somebody else holds it.
fn try_hold(group: &Path) -> io::Result<Option<Flock<File>>> {
    match Flock::lock(File::open(group)?, FlockArg::LockExclusiveNonblock) {
        Ok(held) => Ok(Some(held)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Makes a group if there is none.
pub(super) fn make(path: &Path) -> Result<(), PlaceError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(PlaceError::Make {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

fn look(path: &'static str) -> Result<Vec<u8>, PlaceError> {
    fs::read(path).map_err(|source| PlaceError::Look { path, source })
}

fn is_one_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.next() == Some(Component::Normal(name.as_ref())) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_where_it_is() {
        fn check(name: &str, expected: bool) {
            assert_eq!(is_one_name(name), expected, "{name:?}");
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
    fn every_generation_of_a_group_is_known_by_its_name() {
        let names: Vec<_> = generations("slot-1").take(3).collect();
        assert_eq!(names, ["slot-1", "slot-1.2", "slot-1.3"]);
        assert!(names.iter().all(|name| is_generation_of("slot-1", name.as_ref())));
        for other in ["slot-10", "slot-10.2", "slot-2", "slot"] {
            assert!(!is_generation_of("slot-1", other.as_ref()), "{other}");
        }
    }
}
