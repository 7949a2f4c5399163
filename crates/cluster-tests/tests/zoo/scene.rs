//! What can be seen of a node from outside: its processes, their namespaces and mounts, its control groups, the files
//! of its tasks. A task that has left anything has changed it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cluster_tests::{System, conclave, groups_beneath, groups_named};

use crate::stage::{WARDENS, first_user};

/// In numbers: a warden that took the place of another is as good as that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scene {
    processes: BTreeMap<Kind, usize>,
    /// Those that are of no other kind, by their names.
    others: Vec<String>,
    namespaces: BTreeMap<&'static str, usize>,
    /// That each process sees.
    mounts: Vec<usize>,
    groups: usize,
    /// Whatever lies in the tasks' file systems.
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Warden,
    /// The first process of a cell.
    First,
    /// Waits in a cell for a task.
    Parked,
    Other,
}

/// A process of this machine.
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    pub(crate) user: u32,
    pub(crate) name: String,
}

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

impl Scene {
    /// Of the node that is this process.
    pub(crate) fn of(node: i32, system: &System) -> Scene {
        let groups = all_groups(system);
        let members: BTreeSet<i32> = groups.iter().flat_map(|group| members(group)).collect();
        let all = processes();
        let of_node: Vec<&Process> = all
            .values()
            .filter(|process| process.pid != node)
            .filter(|process| {
                let is_member = members.contains(&process.pid);
                is_member || process.is_inmate() || process.descends_from(node, &all) || process.holds(system)
            })
            .collect();

        let mut scene = Scene {
            processes: BTreeMap::new(),
            others: Vec::new(),
            namespaces: BTreeMap::new(),
            mounts: Vec::new(),
            groups: groups.len(),
            files: Vec::new(),
        };
        let mut namespaces = BTreeSet::new();
        for process in of_node {
            let kind = process.kind(node, &all, &members);
            *scene.processes.entry(kind).or_default() += 1;
            match kind {
                Kind::Warden => scene.files.extend(process.files_of_task()),
                Kind::Other => scene.others.push(format!("{} {}", process.pid, process.name)),
                Kind::First | Kind::Parked => {}
            }
            scene.mounts.push(process.read("mountinfo").lines().count());
            for name in NAMESPACES {
                if let Ok(namespace) = fs::read_link(process.folder().join("ns").join(name))
                    && namespaces.insert((name, namespace))
                {
                    *scene.namespaces.entry(name).or_default() += 1;
                }
            }
        }
        scene.mounts.sort_unstable();
        scene
    }

    /// Each warden has one cell ready, and nobody is at work. All else is as it happens to be then.
    pub(crate) fn is_quiet(&self) -> bool {
        let each = WARDENS as usize;
        self.processes == BTreeMap::from([(Kind::Warden, each), (Kind::First, each), (Kind::Parked, each)])
            && self.files.is_empty()
    }
}

impl Process {
    fn of(folder: &Path) -> Option<Process> {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()
        };
        Some(Process {
            pid,
            parent: field("PPid:")?.parse().ok()?,
            user: field("Uid:")?.parse().ok()?,
            name: field("Name:")?.to_string(),
        })
    }

    /// In a cell: the command, whatever it has started, or who waits to become it.
    fn is_inmate(&self) -> bool {
        (first_user()..first_user() + WARDENS).contains(&self.user)
    }

    fn kind(&self, node: i32, all: &BTreeMap<i32, Process>, members: &BTreeSet<i32>) -> Kind {
        let parent = all.get(&self.parent);
        let is_child_of_warden = parent.is_some_and(|parent| parent.parent == node);
        match (self.is_conclave(), members.contains(&self.pid)) {
            (true, true) if self.is_inmate() => Kind::Parked,
            (true, false) if self.parent == node => Kind::Warden,
            (true, false) if is_child_of_warden && !self.is_inmate() => Kind::First,
            _ => Kind::Other,
        }
    }

    fn descends_from(&self, ancestor: i32, all: &BTreeMap<i32, Process>) -> bool {
        let mut line = std::iter::successors(Some(self), |process| all.get(&process.parent));
        line.any(|process| process.parent == ancestor)
    }

    /// Whether it has a file of the node's folder open. Wardens and cells do, whoever their parents are by now.
    fn holds(&self, system: &System) -> bool {
        let files = || {
            fs::read_dir(self.folder().join("fd"))
                .into_iter()
                .flatten()
                .flatten()
        };
        let is_of_node = |file: PathBuf| file.starts_with(system.data());
        self.is_conclave() && files().any(|file| fs::read_link(file.path()).is_ok_and(is_of_node))
    }

    /// Not yet another program, and not yet dead.
    fn is_conclave(&self) -> bool {
        fs::read_link(self.folder().join("exe")).is_ok_and(|program| program == conclave())
    }

    /// A warden's: what lies in the file system that it has made for its next task, but for the folders of it.
    fn files_of_task(&self) -> Vec<PathBuf> {
        let task = self.folder().join("root/box");
        let folders = ["box", "tmp", "shm"].map(|name| task.join(name));
        let mut files = list(&task);
        files.retain(|file| !folders.contains(file));
        files.extend(folders.iter().flat_map(|folder| list(folder)));
        files
    }

    /// What it has of a path of its own.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder().join("root").join(path)
    }

    fn folder(&self) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap_or_default()
    }
}

/// The wardens of the node that is this process.
pub(crate) fn wardens(node: i32) -> Vec<Process> {
    let children = processes().into_values().filter(|process| process.parent == node);
    children.collect()
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn processes() -> BTreeMap<i32, Process> {
    let all = list(Path::new("/proc"));
    let all = all.iter().filter_map(|folder| Process::of(folder));
    all.map(|process| (process.pid, process)).collect()
}

/// Those in the cells of this zoo, the parked ones included.
pub(crate) fn inmates() -> Vec<Process> {
    processes().into_values().filter(Process::is_inmate).collect()
}

/// The control groups of an executor, wherever they are.
pub(crate) fn groups(system: &System) -> Vec<PathBuf> {
    let id = fs::read_to_string(system.data().join("executor/id")).unwrap_or_default();
    let name = format!("conclave-{}", id.trim());
    groups_named(|known| known == name)
}

fn all_groups(system: &System) -> Vec<PathBuf> {
    let groups = groups(system);
    groups.iter().flat_map(|group| groups_beneath(group)).collect()
}

/// Those that a process is in.
pub(crate) fn groups_of(process: &Process, system: &System) -> Vec<PathBuf> {
    let mut groups = all_groups(system);
    groups.retain(|group| members(group).contains(&process.pid));
    groups
}

fn members(group: &Path) -> Vec<i32> {
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    members.lines().filter_map(|pid| pid.parse().ok()).collect()
}
