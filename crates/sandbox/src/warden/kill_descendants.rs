//! Kills every process of a run, regardless of their number and of their process groups and sessions.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::process_table::ProcessTable;
use super::reap::{ChildrenLeft, ReapedUsage};
use super::signals;

/// If no process has ended for this long after all were killed, some were missed, so the table is read again.
const RESCAN_AFTER: Duration = Duration::from_millis(20);

/// Returns when the warden has no descendants left.
pub(super) fn kill_descendants(table: &mut ProcessTable, reaped: &mut ReapedUsage) {
    while reaped.reap() == ChildrenLeft::Some {
        kill_process_groups(table);
        if reaped.reap() == ChildrenLeft::None {
            return;
        }
        for pid in stop_descendants(table) {
            signal(pid, Signal::SIGKILL);
        }
        while wait_for_child_end() {
            if reaped.reap() == ChildrenLeft::None {
                return;
            }
        }
    }
}

/// Kills whole process groups at once. A member cannot escape by forking, because the kernel starts no process in the
/// group meanwhile. This ends a fork bomb before it could be listed. Only processes that left their group remain.
fn kill_process_groups(table: &ProcessTable) {
    // The warden leads its own group; a child is in it until it starts its session.
    let own = getpgrp();
    let children = table.children().unwrap_or_default().into_iter();
    // A child keeps its process id, and so its group id, until it is reaped.
    let groups: HashSet<_> = children
        .filter_map(|pid| getpgid(Some(Pid::from_raw(pid))).ok())
        .collect();
    for group in groups.into_iter().filter(|group| *group != own) {
        // An error means that all of them have ended.
        let _ = killpg(group, Signal::SIGKILL);
    }
}

/// Stops all descendants before any is killed. A stopped process cannot fork, so each scan finds fewer new ones.
/// Returns all of them.
fn stop_descendants(table: &mut ProcessTable) -> HashSet<i32> {
    let mut frozen = HashSet::new();
    loop {
        // The table may be unreadable for a moment if the machine is out of descriptors or memory. Then the known
        // processes are killed, and the caller tries again.
        let Ok(descendants) = table.descendants() else {
            return frozen;
        };
        let before = frozen.len();
        for pid in descendants {
            if frozen.insert(pid) {
                signal(pid, Signal::SIGSTOP);
            }
        }
        if frozen.len() == before {
            return frozen;
        }
    }
}

/// The id could belong to another process only if all ids were used up since it was read. A child keeps its id until
/// it is reaped, which does not happen here.
fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Waits until a child may have ended. Returns false if that took too long.
fn wait_for_child_end() -> bool {
    let before = std::time::Instant::now();
    let waited = signals::wait(&mut [], Some(RESCAN_AFTER));
    waited.is_ok() && before.elapsed() < RESCAN_AFTER
}
