//! What keeps commands in, on this machine: found out before the first of them runs, said aloud, and refused where a
//! wall is missing that the operator has not given up by name.

mod core_dumps;
mod per_user;
mod wall;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::Flock;
use serde::Serialize;

use crate::cell::{
    CellSettings, LOOPBACK, Network, OWN, Part, Step, StepError, Usual, landlock_version, open_network,
};
use crate::cgroup::{Place, PlaceError};
use crate::fault::{Fault, with_causes};
use crate::launch::{Isolation, LaunchError, Launcher};

use per_user::PerUser;
pub use wall::Wall;

/// What the operator wants of the cells of one executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellPlan {
    /// A folder with a root file system; none is the host's programs.
    pub root: Option<PathBuf>,
    /// Further files and folders of the host, to be read only.
    pub binds: Vec<(PathBuf, PathBuf)>,
    /// Users and groups from here on are the commands', one for each warden. An ordinary user's commands are these only
    /// where they are subordinate ids of that user, and otherwise any of its subordinate ids.
    pub first_user: u32,
    /// How many wardens there will be at one time.
    pub wardens: u32,
    /// Beneath which control group; none is our own.
    pub parent_group: Option<PathBuf>,
    /// What a task may have that asks for no limit of its own.
    pub usual: Usual,
    pub space: u64,
    pub files: u64,
    pub networks: Vec<Network>,
    /// The walls that the operator does without.
    pub without: Vec<Wall>,
}

/// That something is enforced, and by what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    pub wall: &'static str,
    pub by: String,
    /// Nothing enforces it, and the operator has not given it up by name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

impl Statement {
    fn new(wall: &'static str, by: impl Into<String>) -> Statement {
        Statement {
            wall,
            by: by.into(),
            missing: false,
        }
    }
}

/// All that is needed to make cells on this machine.
#[derive(Debug)]
pub struct Ground {
    pub isolation: Isolation,
    pub statements: Vec<Statement>,
    /// Control groups of an earlier life whose processes were sent SIGKILL and hang in the kernel. Nothing else is
    /// hindered by them.
    pub remains: Vec<PathBuf>,
    place: Option<Place>,
    /// While these are, the place is not taken for abandoned.
    held: Vec<Flock<File>>,
}

#[derive(Debug, thiserror::Error)]
pub enum WallError {
    #[error("{}. To do without, start with {}", self.without_remedy(), giving_up(walls))]
    Missing { walls: Vec<Wall>, why: String },
    #[error(
        "two things are missing on this machine: {}; and {}. To do without both, for trusted work, start with \
         --isolation none",
        limits.without_remedy(),
        cells.without_remedy()
    )]
    Both {
        limits: Box<WallError>,
        cells: Box<WallError>,
    },
    #[error(
        "a command that crashes would reach the core dump helper of this machine ({pattern}), which is outside of any \
         cell: set the sysctl kernel.core_pattern to the name of a file or, for a helper behind `|`, start the executor \
         with a hard limit of core files above 0 (LimitCORE=infinity in its unit)"
    )]
    CoreDumpHelper { pattern: String },
    #[error("cannot clean up what an earlier executor left in its control groups")]
    Clear(#[source] PlaceError),
    #[error("cannot look at the root of the cells, {path:?}: name a folder that holds a root file system")]
    Root {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cells cannot have {from:?} as {to:?} (sandbox.binds): {why}")]
    Bind { from: PathBuf, to: PathBuf, why: String },
    #[error(
        "{namespace:?} cannot be the network {name} (sandbox.networks): {why}; name the file of a network namespace, \
         as `ip netns add {name}` makes at /run/netns/{name}"
    )]
    Network {
        name: String,
        namespace: PathBuf,
        why: String,
    },
    #[error("cells cannot be made on this machine: {remedy}. Trusted work can be run with --isolation none")]
    Cell {
        remedy: &'static str,
        #[source]
        source: Fault,
    },
    #[error("cannot start a warden")]
    Warden(#[source] LaunchError),
}

impl WallError {
    /// What is wrong, for a message that has one remedy for several things.
    fn without_remedy(&self) -> String {
        match self {
            WallError::Missing { walls, why } => format!(
                "{} for all processes of a task together cannot be kept: {why}",
                limits_of(walls)
            ),
            WallError::Cell { source, .. } => {
                format!("cells cannot be made on this machine: {}", with_causes(source))
            }
            other => with_causes(other),
        }
    }
}

impl CellPlan {
    /// Finds out whether cells can be made here, and leaves nothing. The error names all that is missing.
    pub fn try_out(&self) -> Result<(), WallError> {
        let limits = match self.try_once() {
            Err(missing @ WallError::Missing { .. }) => missing,
            tried => return tried,
        };
        let without_limits = CellPlan {
            without: Wall::ALL.to_vec(),
            ..self.clone()
        };
        Err(match without_limits.try_once() {
            Ok(()) => limits,
            Err(cells) => WallError::Both {
                limits: Box::new(limits),
                cells: Box::new(cells),
            },
        })
    }

    fn try_once(&self) -> Result<(), WallError> {
        let ground = self.prepare_once()?;
        let launcher = Launcher::this_binary(ground.isolation.of_warden(0));
        let started = launcher.start().map(drop).map_err(WallError::from);
        // What is left is removed by the next one that tries.
        let _ = ground.leave();
        started
    }

    /// Makes everything ready. `name` is that of the control groups, and nobody else's: what is in these is ended.
    pub fn prepare(&self, name: &str) -> Result<Ground, WallError> {
        // All that can be wrong with the settings comes first: then nothing is there yet that would be left.
        core_dumps::look_at_helper()?;
        let root = self.parts()?;
        self.networks.iter().try_for_each(look_at_network)?;
        let place = match Place::prepare(name, self.parent_group.as_deref()) {
            Ok(place) => Some(place),
            Err(error) => {
                self.do_without(&Wall::ALL, &with_causes(&error))?;
                None
            }
        };
        let (remains, mut statements) = self.take_over(place.as_ref()).inspect_err(|_| {
            if let Some(place) = place.clone() {
                let _ = place.remove();
            }
        })?;
        let per_user = PerUser::find(self.first_user, self.wardens.max(1));
        statements.extend(per_user.statements());
        statements.extend(fixed_walls());
        let settings = CellSettings {
            root,
            user: self.first_user,
            subordinates: per_user.subordinates().cloned(),
            most_open_files: per_user.most_open_files(),
            group: place.clone().map(|place| (place, "slot".to_string())),
            usual: self.usual,
            space: self.space,
            files: self.files,
            networks: self.networks.clone(),
        };
        Ok(Ground {
            isolation: Isolation::Cell(Box::new(settings)),
            statements,
            remains,
            place,
            held: Vec::new(),
        })
    }

    /// The same for a process that has no name of its own and does not come back: what such a one has left is
    /// removed by the next.
    pub fn prepare_once(&self) -> Result<Ground, WallError> {
        const PREFIX: &str = "conclave-once-";
        // Where others cannot see this process, its number may be theirs as well.
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), moment.as_nanos());
        let mut ground = self.prepare(&name)?;
        if let Some(place) = &ground.place {
            // Where a group cannot be locked, the number of its owner has to do.
            ground.held = place.hold().unwrap_or_default();
            place.remove_abandoned(PREFIX);
        }
        Ok(ground)
    }

    fn take_over(&self, place: Option<&Place>) -> Result<(Vec<PathBuf>, Vec<Statement>), WallError> {
        let remains = match place.map_or(Ok(0), Place::clear) {
            Ok(_) => Vec::new(),
            Err(PlaceError::Remains(groups)) => groups,
            Err(error) => return Err(WallError::Clear(error)),
        };
        Ok((remains, self.limits(place)?))
    }

    fn limits(&self, place: Option<&Place>) -> Result<Vec<Statement>, WallError> {
        let keeps = place.map(Place::keeps);
        let kept = |wall: Wall| {
            keeps.filter(|keeps| match wall {
                Wall::Memory => keeps.memory,
                Wall::Processes => keeps.processes,
                Wall::Cpu => keeps.cpu,
            })
        };
        let mut missing = Wall::ALL.to_vec();
        missing.retain(|wall| kept(*wall).is_none());
        self.do_without(
            &missing,
            "the controllers are not there, or were not given to this group",
        )?;
        let mut statements = Vec::new();
        for wall in Wall::ALL {
            let by = match kept(wall) {
                Some(keeps) if wall == Wall::Memory && !keeps.peak => {
                    format!(
                        "{} (of the peak this kernel tells only that of the largest process)",
                        keeps.by
                    )
                }
                Some(keeps) => keeps.by.to_string(),
                None => wall.instead().to_string(),
            };
            statements.push(Statement::new(wall.name(), by));
        }
        let share = keeps.filter(|keeps| keeps.share);
        let by = match share {
            Some(keeps) => format!("{}, the same for each slot", keeps.by),
            None => "nothing: a task has more with more processes (the cpu controller is not there, or was not given \
                     to this group)"
                .to_string(),
        };
        statements.push(Statement {
            missing: share.is_none(),
            ..Statement::new("share of the processors", by)
        });
        Ok(statements)
    }

    /// Refuses to do without those that the operator has not given up, all at once.
    fn do_without(&self, missing: &[Wall], why: &str) -> Result<(), WallError> {
        let mut walls = missing.to_vec();
        walls.retain(|wall| !self.without.contains(wall));
        match walls.is_empty() {
            true => Ok(()),
            false => Err(WallError::Missing {
                walls,
                why: why.to_string(),
            }),
        }
    }

    fn parts(&self) -> Result<Vec<Part>, WallError> {
        let parts = match &self.root {
            Some(folder) => Part::of_folder(folder),
            None => Part::of_host(),
        };
        let mut parts = parts.map_err(|source| WallError::Root {
            path: self.root.clone().unwrap_or_else(|| "/".into()),
            source,
        })?;
        for (from, to) in &self.binds {
            check_bind(from, to, &parts).map_err(|why| WallError::Bind {
                from: from.clone(),
                to: to.clone(),
                why,
            })?;
            parts.push(Part::Bind {
                from: from.clone(),
                to: to.clone(),
            });
        }
        Ok(parts)
    }
}

/// The root is put together once and then read-only, so there must be something for the bind to lie upon.
fn check_bind(from: &Path, to: &Path, parts: &[Part]) -> Result<(), String> {
    let source = fs::metadata(from).map_err(|error| error.to_string())?;
    if OWN.iter().any(|own| to.starts_with(Path::new("/").join(own))) {
        return Err("that is for each cell's own; choose another place in the cell".to_string());
    }
    // What was mounted last lies on top.
    let upon = parts.iter().rev().find(|part| to.starts_with(part.place()));
    match upon {
        Some(Part::Link { at, target }) => Err(format!(
            "{at:?} is a link to {target:?} in the cells' root; name where it leads"
        )),
        Some(Part::Bind { from, to: covered }) if to != covered => {
            let there = from.join(to.strip_prefix(covered).unwrap_or(to));
            let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
            let mut on_the_way = there.ancestors().take_while(|path| path != from);
            if let Some(link) = on_the_way.find(|path| is_link(path)) {
                return Err(format!("{link:?} is a link; name where it leads"));
            }
            let kind = if source.is_dir() { "folder" } else { "file" };
            match fs::metadata(&there).is_ok_and(|there| there.is_dir() == source.is_dir()) {
                true => Ok(()),
                false => Err(format!(
                    "there is no {kind} {there:?} for it to lie upon; make one, or choose another place"
                )),
            }
        }
        _ => Ok(()),
    }
}

fn look_at_network(network: &Network) -> Result<(), WallError> {
    let Network { name, namespace } = network;
    open_network(namespace)
        .map(drop)
        .map_err(|errno| WallError::Network {
            name: name.clone(),
            namespace: namespace.clone(),
            why: match errno.0 {
                libc::EINVAL => "it is no network namespace".to_string(),
                _ => errno.text().to_string(),
            },
        })
}

/// `the limits of memory and cpu`
fn limits_of(walls: &[Wall]) -> String {
    match walls {
        [wall] => format!("the limit of {wall}"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|wall| wall.name()).collect();
            format!("the limits of {} and {last}", first.join(", "))
        }
        [] => "no limit".to_string(),
    }
}

/// `--allow-weaker memory --allow-weaker cpu`
fn giving_up(walls: &[Wall]) -> String {
    let flags: Vec<_> = walls
        .iter()
        .map(|wall| format!("--allow-weaker {wall}"))
        .collect();
    flags.join(" ")
}

impl Ground {
    /// Removes the control groups, when no warden is left.
    pub fn leave(self) -> Result<(), PlaceError> {
        let Self { place, held, .. } = self;
        let left = place.map_or(Ok(()), Place::remove);
        drop(held);
        left
    }
}

impl From<LaunchError> for WallError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Refused(source) => WallError::Cell {
                remedy: remedy(&source),
                source,
            },
            error => WallError::Warden(error),
        }
    }
}

/// What every cell has, or it would not have been made.
fn fixed_walls() -> Vec<Statement> {
    let landlock = match landlock_version() {
        Some(version) => format!("mounts, Landlock (version {version})"),
        None => "mounts (this kernel has no Landlock)".to_string(),
    };
    [
        ("files", landlock),
        (
            "network",
            format!("empty network namespace ('{LOOPBACK}' on request)"),
        ),
        ("visibility", "pid, ipc, uts and cgroup namespaces".to_string()),
        ("system calls", "seccomp".to_string()),
        ("privileges", "no capabilities, no new privileges".to_string()),
        ("space", "a tmpfs of the task's own".to_string()),
        ("file size, open files, stack, core dumps", "rlimit".to_string()),
        ("time on the clock, output", "the warden".to_string()),
    ]
    .map(|(wall, by)| Statement::new(wall, by))
    .into()
}

fn remedy(fault: &Fault) -> &'static str {
    let Fault::Cell(StepError { step, errno }) = fault else {
        return "its control groups do not work as they should";
    };
    match step {
        Step::UserNamespace | Step::MapUser => {
            "ordinary users may not make user namespaces here; set the sysctl kernel.unprivileged_userns_clone=1 \
             (and kernel.apparmor_restrict_unprivileged_userns=0 where there is one), or run as root"
        }
        Step::MountProcesses => {
            "a new /proc cannot be mounted, as in a container that hides parts of it; start the container with \
             --security-opt systempaths=unconfined, or privileged"
        }
        Step::OpenPart => "a file or folder that is to be in every cell is not there, or may not be read",
        Step::OpenNetwork => "a network namespace that is named in sandbox.networks is not there any more",
        Step::Seccomp => "the kernel has no filter for system calls (CONFIG_SECCOMP_FILTER)",
        _ if errno.0 == libc::ENOSYS => "the kernel is too old: it takes Linux 5.12 or newer",
        _ if matches!(errno.0, libc::EPERM | libc::EACCES) => {
            "this process may not; in a container, start that with --privileged, or with --cap-add SYS_ADMIN \
             --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        }
        _ => "the machine refuses",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_in_one_message() {
        let check = |walls: &[Wall], named: &str, flags: &str| {
            let said = WallError::Missing {
                walls: walls.to_vec(),
                why: "no group".to_string(),
            }
            .to_string();
            assert!(said.starts_with(named) && said.ends_with(flags), "{said}");
        };
        check(
            &[Wall::Cpu],
            "the limit of cpu for",
            "start with --allow-weaker cpu",
        );
        check(
            &Wall::ALL,
            "the limits of memory, processes and cpu for",
            "start with --allow-weaker memory --allow-weaker processes --allow-weaker cpu",
        );
    }
}
