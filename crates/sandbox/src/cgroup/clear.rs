//! Removes control groups and kills the processes in them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::root::CgroupRootError;
use crate::pidfd::PidFd;

/// Processes end within milliseconds after SIGKILL, unless they wait for a disk that does not respond.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Removes all groups beneath these directories and returns how many processes were killed. A group whose processes
/// do not end does not keep the others from being removed; it is reported as an error at the end.
pub(super) fn clear<'a>(directories: impl IntoIterator<Item = &'a Path>) -> Result<usize, CgroupRootError> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut cleared = ClearResult::default();
    for directory in directories {
        clear_until(directory, deadline, &mut cleared)?;
    }
    match cleared.stuck_groups.is_empty() {
        true => Ok(cleared.killed),
        false => Err(CgroupRootError::StuckProcesses(cleared.stuck_groups)),
    }
}

/// What the removal of leftover control groups has done so far: killed processes, and groups that could not be removed.
#[derive(Default)]
struct ClearResult {
    killed: usize,
    /// Groups whose processes do not end.
    stuck_groups: Vec<PathBuf>,
}

/// Kills the processes of a group without subgroups and removes it.
pub(super) fn remove(group: &Path) -> Result<(), CgroupRootError> {
    kill_and_remove(group, Instant::now() + KILL_TIMEOUT).map(drop)
}

/// Kills the processes of a group. No process can escape by forking if the kernel has `cgroup.kill` or the group has
/// a pids controller.
pub(super) fn kill(group: &Path) {
    let _ = write(&group.join("pids.max"), "0");
    let _ = write(&group.join("cgroup.kill"), "1");
    for process in open_processes(group).unwrap_or_default() {
        let _ = process.send(libc::SIGKILL);
    }
}

fn clear_until(
    directory: &Path,
    deadline: Instant,
    cleared: &mut ClearResult,
) -> Result<(), CgroupRootError> {
    let unlisted = |source| CgroupRootError::List {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(unlisted)?,
    };
    for entry in entries {
        let entry = entry.map_err(unlisted)?;
        // All other entries are the files of the group itself.
        if entry.file_type().map_err(unlisted)?.is_dir() {
            clear_until(&entry.path(), deadline, cleared)?;
            match kill_and_remove(&entry.path(), deadline) {
                Ok(killed) => cleared.killed += killed,
                Err(CgroupRootError::StuckProcesses(groups)) => cleared.stuck_groups.extend(groups),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn kill_and_remove(group: &Path, deadline: Instant) -> Result<usize, CgroupRootError> {
    const PAUSE: Duration = Duration::from_millis(1);
    // If the group has a pids controller, no process can be started from now on.
    let _ = write(&group.join("pids.max"), "0");
    let mut killed = 0;
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(killed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(killed),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(source) => {
                return Err(CgroupRootError::Remove {
                    path: group.to_owned(),
                    source,
                });
            }
        }
        let processes = open_processes(group).map_err(|source| CgroupRootError::List {
            path: group.to_owned(),
            source,
        })?;
        // The kernel kills all processes at once if it can. An error is harmless: each process is also killed by its
        // descriptor.
        let _ = write(&group.join("cgroup.kill"), "1");
        for process in &processes {
            let _ = process.send(libc::SIGKILL);
        }
        for process in &processes {
            if !process.wait(deadline.saturating_duration_since(Instant::now())) {
                return Err(CgroupRootError::StuckProcesses(vec![group.to_owned()]));
            }
        }
        killed += processes.len();
        if Instant::now() >= deadline {
            return Err(CgroupRootError::StuckProcesses(vec![group.to_owned()]));
        }
        if processes.is_empty() {
            // The last process is no longer listed but still holds the group, and the kernel reports no event when
            // that ends.
            std::thread::sleep(PAUSE);
        }
    }
}

/// Opens the processes of a group. They are listed again afterwards, so that no process id can belong to another
/// process by then.
fn open_processes(group: &Path) -> io::Result<Vec<PidFd>> {
    let own = std::process::id() as i32;
    let listed = members(group)?.into_iter().filter(|pid| *pid != own);
    let processes: Vec<(i32, PidFd)> = listed
        .filter_map(|pid| Some((pid, PidFd::open(pid).ok()?)))
        .collect();
    let still_listed = members(group)?;
    Ok(processes
        .into_iter()
        .filter(|(pid, _)| still_listed.contains(pid))
        .map(|(_, process)| process)
        .collect())
}

pub(super) fn members(group: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Never creates a file, and passes the whole text to the kernel in one call.
pub(super) fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}
