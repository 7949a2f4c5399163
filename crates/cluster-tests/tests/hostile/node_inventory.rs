//! An inventory of a node, seen from outside: processes, namespaces, mounts, control groups, and files of tasks. A task that
//! leaves anything behind changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cluster_tests::{TestSystem, conclave, control_groups_beneath, control_groups_named};

use crate::harness::{WARDENS, first_user};

/// The processes, namespaces, mounts, control groups and files of a node under test, to find leftovers of tasks. It
/// contains counts instead of ids, because a warden may be replaced by another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeInventory {
    processes: BTreeMap<ProcessRole, usize>,
    /// Processes of role `Other`, by pid and name.
    others: Vec<String>,
    namespaces: BTreeMap<&'static str, usize>,
    /// The number of mounts that each process sees.
    mounts: Vec<usize>,
    groups: usize,
    /// Files in the tasks' file systems.
    files: Vec<PathBuf>,
}

/// What a process of a node with cells is for, in the inventory that a test takes of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ProcessRole {
    Warden,
    /// Process 1 of a cell.
    CellInit,
    /// The stub that waits in a cell for a command.
    CellStub,
    Other,
}

/// A process of the test machine, as a test reads it from `/proc`.
pub(crate) struct ObservedProcess {
    pub(crate) pid: i32,
    parent: i32,
    pub(crate) user: u32,
    pub(crate) name: String,
}

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

impl NodeInventory {
    /// Takes the inventory of the node with this pid.
    pub(crate) fn of(node: i32, system: &TestSystem) -> NodeInventory {
        let groups = all_groups(system);
        let members: BTreeSet<i32> = groups.iter().flat_map(|group| members(group)).collect();
        let all = processes();
        let of_node: Vec<&ObservedProcess> = all
            .values()
            .filter(|process| process.pid != node)
            .filter(|process| {
                let is_member = members.contains(&process.pid);
                is_member
                    || process.is_in_a_cell()
                    || process.descends_from(node, &all)
                    || process.has_open_file_of(system)
            })
            .collect();

        let mut inventory = NodeInventory {
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
            *inventory.processes.entry(kind).or_default() += 1;
            match kind {
                ProcessRole::Warden => inventory.files.extend(process.files_of_task()),
                ProcessRole::Other => inventory.others.push(format!("{} {}", process.pid, process.name)),
                ProcessRole::CellInit | ProcessRole::CellStub => {}
            }
            inventory.mounts.push(process.read("mountinfo").lines().count());
            for name in NAMESPACES {
                if let Ok(namespace) = fs::read_link(process.folder().join("ns").join(name))
                    && namespaces.insert((name, namespace))
                {
                    *inventory.namespaces.entry(name).or_default() += 1;
                }
            }
        }
        inventory.mounts.sort_unstable();
        inventory
    }

    /// Whether each warden has one ready cell, and no task runs.
    pub(crate) fn is_idle(&self) -> bool {
        let each = WARDENS as usize;
        self.processes
            == BTreeMap::from([
                (ProcessRole::Warden, each),
                (ProcessRole::CellInit, each),
                (ProcessRole::CellStub, each),
            ])
            && self.files.is_empty()
    }
}

impl ObservedProcess {
    fn of(folder: &Path) -> Option<ObservedProcess> {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()
        };
        Some(ObservedProcess {
            pid,
            parent: field("PPid:")?.parse().ok()?,
            user: field("Uid:")?.parse().ok()?,
            name: field("Name:")?.to_string(),
        })
    }

    /// Whether it is in a cell: a command, its descendant, or a waiting stub.
    fn is_in_a_cell(&self) -> bool {
        (first_user()..first_user() + WARDENS).contains(&self.user)
    }

    fn kind(&self, node: i32, all: &BTreeMap<i32, ObservedProcess>, members: &BTreeSet<i32>) -> ProcessRole {
        let parent = all.get(&self.parent);
        let is_child_of_warden = parent.is_some_and(|parent| parent.parent == node);
        match (self.is_conclave(), members.contains(&self.pid)) {
            (true, true) if self.is_in_a_cell() => ProcessRole::CellStub,
            (true, false) if self.parent == node => ProcessRole::Warden,
            (true, false) if is_child_of_warden && !self.is_in_a_cell() => ProcessRole::CellInit,
            _ => ProcessRole::Other,
        }
    }

    fn descends_from(&self, ancestor: i32, all: &BTreeMap<i32, ObservedProcess>) -> bool {
        let mut line = std::iter::successors(Some(self), |process| all.get(&process.parent));
        line.any(|process| process.parent == ancestor)
    }

    /// Whether it has a file of the node's folder open, as wardens and cells have, also when they were reparented.
    fn has_open_file_of(&self, system: &TestSystem) -> bool {
        let files = || {
            fs::read_dir(self.folder().join("fd"))
                .into_iter()
                .flatten()
                .flatten()
        };
        let is_of_node = |file: PathBuf| file.starts_with(system.data());
        self.is_conclave() && files().any(|file| fs::read_link(file.path()).is_ok_and(is_of_node))
    }

    /// Whether it is alive and executes the conclave binary.
    fn is_conclave(&self) -> bool {
        fs::read_link(self.folder().join("exe")).is_ok_and(|program| program == conclave())
    }

    /// Files in the file system that a warden has prepared for its next task, except for its standard folders.
    fn files_of_task(&self) -> Vec<PathBuf> {
        let task = self.folder().join("root/box");
        let folders = ["box", "tmp", "shm"].map(|name| task.join(name));
        let mut files = list(&task);
        files.retain(|file| !folders.contains(file));
        files.extend(folders.iter().flat_map(|folder| list(folder)));
        files
    }

    /// A path in the process's own root.
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

/// The wardens of the node with this pid.
pub(crate) fn wardens(node: i32) -> Vec<ObservedProcess> {
    let children = processes().into_values().filter(|process| process.parent == node);
    children.collect()
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn processes() -> BTreeMap<i32, ObservedProcess> {
    let all = list(Path::new("/proc"));
    let all = all.iter().filter_map(|folder| ObservedProcess::of(folder));
    all.map(|process| (process.pid, process)).collect()
}

/// All processes in this node's cells, including waiting stubs.
pub(crate) fn cell_processes() -> Vec<ObservedProcess> {
    processes()
        .into_values()
        .filter(ObservedProcess::is_in_a_cell)
        .collect()
}

/// The control groups of the executor, in all hierarchies.
pub(crate) fn groups(system: &TestSystem) -> Vec<PathBuf> {
    let id = fs::read_to_string(system.data().join("executor/id")).unwrap_or_default();
    let name = format!("conclave-{}", id.trim());
    control_groups_named(|known| known == name)
}

fn all_groups(system: &TestSystem) -> Vec<PathBuf> {
    let groups = groups(system);
    groups
        .iter()
        .flat_map(|group| control_groups_beneath(group))
        .collect()
}

/// The control groups of a process.
pub(crate) fn groups_of(process: &ObservedProcess, system: &TestSystem) -> Vec<PathBuf> {
    let mut groups = all_groups(system);
    groups.retain(|group| members(group).contains(&process.pid));
    groups
}

fn members(group: &Path) -> Vec<i32> {
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    members.lines().filter_map(|pid| pid.parse().ok()).collect()
}
