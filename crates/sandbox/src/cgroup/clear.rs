//! Remove groups with the processes that are in them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place::PlaceError;
use crate::pidfd::PidFd;

/// Processes end within milliseconds after they were killed, unless they write to a broken disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Removes all groups beneath these; returns how many processes were in them. One that cannot be emptied keeps no other
/// from being removed, and is the error in the end.
pub(super) fn clear<'a>(bases: impl IntoIterator<Item = &'a Path>) -> Result<usize, PlaceError> {
    let deadline = Instant::now() + PATIENCE;
    let mut cleared = Cleared::default();
    for base in bases {
        clear_until(base, deadline, &mut cleared)?;
    }
    match cleared.remain.is_empty() {
        true => Ok(cleared.killed),
        false => Err(PlaceError::Remains(cleared.remain)),
    }
}

#[derive(Default)]
struct Cleared {
    killed: usize,
    /// Groups whose processes do not end.
    remain: Vec<PathBuf>,
}

/// Removes a group that has none beneath it.
pub(super) fn remove(group: &Path) -> Result<(), PlaceError> {
    end(group, Instant::now() + PATIENCE).map(drop)
}

/// Kills what is in a group. Processes may be started while it lists them: none can where the kernel kills all at once
/// or the group limits processes.
pub(super) fn kill(group: &Path) {
    let _ = write(&group.join("pids.max"), "0");
    let _ = write(&group.join("cgroup.kill"), "1");
    for process in hold(group).unwrap_or_default() {
        let _ = process.send(libc::SIGKILL);
    }
}

fn clear_until(base: &Path, deadline: Instant, cleared: &mut Cleared) -> Result<(), PlaceError> {
    let unlisted = |source| PlaceError::List {
        path: base.to_owned(),
        source,
    };
    let entries = match fs::read_dir(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(unlisted)?,
    };
    for entry in entries {
        let entry = entry.map_err(unlisted)?;
        // Everything else are the group's own files.
        if entry.file_type().map_err(unlisted)?.is_dir() {
            clear_until(&entry.path(), deadline, cleared)?;
            match end(&entry.path(), deadline) {
                Ok(killed) => cleared.killed += killed,
                Err(PlaceError::Remains(groups)) => cleared.remain.extend(groups),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn end(group: &Path, deadline: Instant) -> Result<usize, PlaceError> {
    const PAUSE: Duration = Duration::from_millis(1);
    // From now on none can be started, where this group limits processes.
    let _ = write(&group.join("pids.max"), "0");
    let mut killed = 0;
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(killed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(killed),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(source) => {
                return Err(PlaceError::Remove {
                    path: group.to_owned(),
                    source,
                });
            }
        }
        let held = hold(group).map_err(|source| PlaceError::List {
            path: group.to_owned(),
            source,
        })?;
        // All at once, where the kernel can; one that it cannot or has ended already needs nothing more.
        let _ = write(&group.join("cgroup.kill"), "1");
        for process in &held {
            let _ = process.send(libc::SIGKILL);
        }
        for process in &held {
            if !process.wait(deadline.saturating_duration_since(Instant::now())) {
                return Err(PlaceError::Remains(vec![group.to_owned()]));
            }
        }
        killed += held.len();
        if Instant::now() >= deadline {
            return Err(PlaceError::Remains(vec![group.to_owned()]));
        }
        if held.is_empty() {
            // The last one is no longer listed and not quite gone, which nothing tells the end of.
            std::thread::sleep(PAUSE);
        }
    }
}

/// The processes of a group. Listed again once they are held, so that no number can have passed to another.
fn hold(group: &Path) -> io::Result<Vec<PidFd>> {
    let own = std::process::id() as i32;
    let listed = members(group)?.into_iter().filter(|pid| *pid != own);
    let held: Vec<(i32, PidFd)> = listed
        .filter_map(|pid| Some((pid, PidFd::open(pid).ok()?)))
        .collect();
    let still = members(group)?;
    Ok(held
        .into_iter()
        .filter(|(pid, _)| still.contains(pid))
        .map(|(_, process)| process)
        .collect())
}

pub(super) fn members(group: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(group.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Never makes a file, and gives the kernel the whole text in one call.
pub(super) fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}
