//! Prepares a cgroup root in version 2: one directory, in a group whose controllers are enabled for its subgroups.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use super::CgroupController;
use super::clear::{members, write};
use super::hierarchy::HierarchyMount;
use super::root::{CgroupRootError, RootDirectory, create_group};

/// Version 2 measures CPU time without a controller.
const CONTROLLERS: [(CgroupController, &str); 3] = [
    (CgroupController::Pids, "pids"),
    (CgroupController::Memory, "memory"),
    (CgroupController::CpuShare, "cpu"),
];

/// The CPU weight of all commands together: half of the default, which the executor's own group has.
const WEIGHT: &str = "50";

/// The subgroup for the processes of a group that gets subgroups.
const LEAF: &str = "conclave-main";

/// The cgroup v2 group in which a cgroup root is created, by what this process may change in it.
#[derive(Debug, PartialEq, Eq)]
enum ParentGroup {
    /// The group was delegated to this process, with all processes in it.
    Delegated(PathBuf),
    /// The operator named the group; processes in it are not ours.
    Named(PathBuf),
    /// The top group, which the whole machine uses.
    Top(PathBuf),
}

pub(super) fn prepare(
    hierarchy: &HierarchyMount,
    name: &str,
    parent: Option<&Path>,
) -> Result<RootDirectory, CgroupRootError> {
    let parent_group = match parent {
        Some(group) => ParentGroup::Named(
            hierarchy
                .directory(group)
                .filter(|parent_group| parent_group.is_dir())
                .ok_or_else(|| CgroupRootError::NoSuchParent(group.to_owned()))?,
        ),
        None => {
            choose_parent(hierarchy).ok_or_else(|| CgroupRootError::NotDelegated(hierarchy.own.clone()))?
        }
    };
    let path = match parent_group {
        ParentGroup::Delegated(parent_group) => {
            if is_busy(&enable(&parent_group)) {
                move_processes_to_leaf(&parent_group)?;
            }
            enable_or_fail(&parent_group)?;
            parent_group.join(name)
        }
        ParentGroup::Named(parent_group) => {
            enable_or_fail(&parent_group)?;
            parent_group.join(name)
        }
        ParentGroup::Top(top) => top.join(name),
    };
    create_group(&path)?;
    enable_or_fail(&path)?;
    let enabled =
        read_words(&path.join("cgroup.subtree_control")).map_err(|source| CgroupRootError::List {
            path: path.clone(),
            source,
        })?;
    let enabled_controllers = CONTROLLERS
        .into_iter()
        .filter(|(_, controller_name)| enabled.iter().any(|word| word == controller_name));
    let controllers: Vec<_> = enabled_controllers
        .map(|(controller, _)| controller)
        .chain([CgroupController::CpuTime])
        .collect();
    if controllers.contains(&CgroupController::CpuShare) {
        write(&path.join("cpu.weight"), WEIGHT).map_err(|source| CgroupRootError::SetCpuWeight {
            path: path.clone(),
            source,
        })?;
    }
    Ok(RootDirectory { path, controllers })
}

fn choose_parent(hierarchy: &HierarchyMount) -> Option<ParentGroup> {
    let (own, top) = (hierarchy.own.as_path(), hierarchy.mount.as_path());
    let is_root = geteuid().is_root();
    // An earlier process of this executor, or the service manager, has moved this process into a subgroup of the
    // delegated group.
    if let Some(parent) = own.parent().filter(|_| own != top)
        && (own.ends_with(LEAF) || is_delegated_by_systemd(parent))
        && is_writable(parent)
    {
        return Some(ParentGroup::Delegated(parent.to_owned()));
    }
    // The top of the visible hierarchy belongs to this process in a container, and where no service manager divides
    // the machine. If this user may divide the group but not its parent, the group was delegated to the user.
    let is_handed_over = !is_root && !own.parent().is_some_and(is_writable);
    let is_ours = own == top || is_delegated_by_systemd(own) || is_handed_over;
    if is_ours && is_writable(own) {
        return Some(ParentGroup::Delegated(own.to_owned()));
    }
    (is_root && is_writable(top)).then(|| ParentGroup::Top(top.to_owned()))
}

/// Whether systemd has marked the group as delegated.
fn is_delegated_by_systemd(group: &Path) -> bool {
    [c"user.delegate", c"trusted.delegate"]
        .into_iter()
        .any(|attribute_name| attribute(group, attribute_name).is_some_and(|value| value == b"1"))
}

fn attribute(path: &Path, name: &CStr) -> Option<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut value = vec![0; 16];
    // SAFETY: both names end with a zero byte, and the kernel writes at most the length of the buffer.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    value.truncate(usize::try_from(length).ok()?);
    Some(value)
}

fn is_writable(group: &Path) -> bool {
    [".", "cgroup.procs", "cgroup.subtree_control"]
        .into_iter()
        .all(|file| access(&group.join(file), AccessFlags::W_OK).is_ok())
}

/// Enables those of our controllers that are available and not enabled.
fn enable(group: &Path) -> io::Result<()> {
    let available = read_words(&group.join("cgroup.controllers"))?;
    let control = group.join("cgroup.subtree_control");
    let [limits, share] = controllers_to_enable(&available, &read_words(&control)?);
    // All at once: if a group contains processes and has only the pids controller, the kernel refuses to enable
    // another one.
    if !limits.is_empty() {
        write(&control, &limits)?;
    }
    if share.is_empty() {
        return Ok(());
    }
    match write(&control, &share) {
        // Some kernels do not allow the cpu controller while there are real-time processes. The cgroup root works
        // without it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        written => written,
    }
}

/// The controllers to enable: first those with limits, then the one that divides the processors.
fn controllers_to_enable(available: &[String], enabled: &[String]) -> [String; 2] {
    let has = |list: &[String], name: &str| list.iter().any(|word| word == name);
    let mut missing = CONTROLLERS.to_vec();
    missing.retain(|(_, name)| has(available, name) && !has(enabled, name));
    let (shares, limits): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|(controller, _)| *controller == CgroupController::CpuShare);
    [limits, shares].map(|controllers| {
        let requests = controllers.iter().map(|(_, name)| format!("+{name}"));
        requests.collect::<Vec<_>>().join(" ")
    })
}

fn enable_or_fail(group: &Path) -> Result<(), CgroupRootError> {
    enable(group).map_err(|source| CgroupRootError::Enable {
        path: group.to_owned(),
        source,
    })
}

/// Whether the group contains processes: the kernel enables controllers for subgroups only in a group without
/// processes.
fn is_busy(result: &io::Result<()>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

fn move_processes_to_leaf(group: &Path) -> Result<(), CgroupRootError> {
    // Processes may start others while they are moved, so several rounds may be needed.
    const ROUNDS: usize = 100;
    let failed = |source| CgroupRootError::MoveProcesses {
        path: group.to_owned(),
        source,
    };
    let leaf = group.join(LEAF);
    create_group(&leaf)?;
    for _ in 0..ROUNDS {
        let pids = members(group).map_err(failed)?;
        if pids.is_empty() {
            return Ok(());
        }
        for pid in pids {
            match write(&leaf.join("cgroup.procs"), &pid.to_string()) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(failed(error)),
                _ => {}
            }
        }
    }
    Err(failed(io::Error::from_raw_os_error(libc::EBUSY)))
}

fn read_words(file: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(file)?;
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cgroup::hierarchy::{CgroupHierarchy, find_hierarchy};
    use crate::cgroup::{Cgroup, CgroupError, CgroupLimits, CgroupRoot, CgroupVersion};

    #[test]
    fn only_missing_controllers_are_enabled() {
        fn check(available: &str, enabled: &str, expected: &str) {
            let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let missing = controllers_to_enable(&words(available), &words(enabled));
            assert_eq!(missing.join("; "), expected, "{available}; {enabled}");
        }
        check("cpuset cpu io memory pids", "", "+pids +memory; +cpu");
        check("cpuset cpu io memory pids", "memory pids cpu", "; ");
        check("cpuset cpu io memory pids", "memory pids", "; +cpu");
        check("cpu memory pids", "memory", "+pids; +cpu");
        check("io pids", "", "+pids; ");
        check("io", "", "; ");
        check("", "", "; ");
    }

    /// On a machine with controllers in version 1, this tests groups without controllers.
    #[test]
    fn a_group_can_be_used_in_the_hierarchy_of_this_machine() {
        let read = |path| fs::read(path).unwrap();
        let (mountinfo, memberships) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let hierarchy = find_hierarchy(&mountinfo, &memberships, CgroupHierarchy::Unified).unwrap();
        let name = format!("conclave-test-{}", std::process::id());
        let cgroup_root = CgroupRoot {
            version: CgroupVersion::V2,
            directories: vec![prepare(&hierarchy, &name, None).unwrap()],
        };
        assert!(cgroup_root.features().cpu);
        let mut group = Cgroup::create(&cgroup_root, "slot").unwrap();
        assert!(group.directory().is_some());
        group.begin_run(CgroupLimits::default()).unwrap();
        let directory = cgroup_root.paths().next().unwrap().join("slot");
        let mut child = Command::new("sh");
        let child = child.args(["-c", "read line; while :; do :; done"]);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        write(&directory.join("cgroup.procs"), &child.id().to_string()).unwrap();
        assert_eq!(members(&directory).unwrap(), [child.id() as i32]);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(15);
        while group.cpu().unwrap().unwrap() < Duration::from_millis(100) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(
            Cgroup::create(&cgroup_root, "slot"),
            Err(CgroupError::Occupied { .. })
        ));
        assert_eq!(cgroup_root.clear().unwrap(), 1);
        child.wait().unwrap();
        assert!(!directory.exists());
        cgroup_root.remove().unwrap();
    }
}
