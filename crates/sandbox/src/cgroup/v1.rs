//! Prepares a cgroup root in version 1: one directory in the hierarchy of each controller.

use std::path::{Path, PathBuf};

use super::CgroupController;
use super::clear::{self, write};
use super::hierarchy::{CgroupHierarchy, HierarchyMount};
use super::root::{CgroupRootError, RootDirectory, create_group};

/// Groups are cleared in this order. The pids controller comes first, because it can prevent that processes are
/// started while others are killed.
const CONTROLLERS: [(CgroupController, &str); 3] = [
    (CgroupController::Pids, "pids"),
    (CgroupController::Memory, "memory"),
    (CgroupController::CpuTime, "cpuacct"),
];

/// The CPU weight of all commands together, for each core: half of that of a thread of the executor.
const SHARES: usize = 512;

/// Returns no directories if none of the controllers is in version 1.
pub(super) fn prepare(
    find: &dyn Fn(CgroupHierarchy) -> Option<HierarchyMount>,
    name: &str,
    parent: Option<&Path>,
) -> Result<Vec<RootDirectory>, CgroupRootError> {
    let mut directories: Vec<RootDirectory> = Vec::new();
    for (controller, controller_name) in CONTROLLERS {
        let Some(hierarchy) = find(CgroupHierarchy::V1Controller(controller_name)) else {
            continue;
        };
        let parent_group = parent_group(hierarchy, parent)?;
        let path = parent_group.join(name);
        // Several controllers may share a hierarchy.
        match directories.iter_mut().find(|directory| directory.path == path) {
            Some(directory) => directory.controllers.push(controller),
            None => directories.push(RootDirectory {
                path,
                controllers: vec![controller],
            }),
        }
    }
    // The groups are created only after all hierarchies were found, so that a wrong parent leaves nothing behind.
    directories
        .iter()
        .try_for_each(|directory| create_group(&directory.path))?;
    if let Some(hierarchy) = find(CgroupHierarchy::V1Controller("cpu")).filter(|_| !directories.is_empty())
        && let Ok(parent_group) = parent_group(hierarchy, parent)
    {
        set_cpu_shares(&mut directories, &parent_group.join(name));
    }
    Ok(directories)
}

fn parent_group(hierarchy: HierarchyMount, parent: Option<&Path>) -> Result<PathBuf, CgroupRootError> {
    match parent {
        None => Ok(hierarchy.own),
        Some(group) => hierarchy
            .directory(group)
            .filter(|parent_group| parent_group.is_dir())
            .ok_or_else(|| CgroupRootError::NoSuchParent(group.to_owned())),
    }
}

/// Sets the CPU weight of all commands. If that is not permitted, a command's share of the processors grows with its
/// number of processes.
fn set_cpu_shares(directories: &mut Vec<RootDirectory>, path: &Path) {
    let existing = directories.iter_mut().find(|directory| directory.path == path);
    if existing.is_none() && create_group(path).is_err() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let written = write(&path.join("cpu.shares"), &(cores * SHARES).to_string());
    match (written, existing) {
        (Ok(()), Some(directory)) => directory.controllers.push(CgroupController::CpuShare),
        (Ok(()), None) => directories.push(RootDirectory {
            path: path.to_owned(),
            controllers: vec![CgroupController::CpuShare],
        }),
        (Err(_), Some(_)) => {}
        (Err(_), None) => drop(clear::remove(path)),
    }
}
