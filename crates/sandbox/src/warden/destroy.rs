//! End every process of a run, however many there are and wherever they went.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::reap::{Left, Tally};
use super::signals;
use super::tree::Table;

/// When nobody has ended for this long although all were killed, some were missed: look again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Returns when the warden has no descendants left, which is as long as the kernel takes to end them.
pub(super) fn destroy(table: &mut Table, tally: &mut Tally) {
    while tally.reap() == Left::Somebody {
        kill_groups(table);
        if tally.reap() == Left::Nobody {
            return;
        }
        for pid in freeze(table) {
            signal(pid, Signal::SIGKILL);
        }
        while someone_ended() {
            if tally.reap() == Left::Nobody {
                return;
            }
        }
    }
}

/// Kills whole groups at once, which no member can outrun by forking: the kernel lets none be born in between. A
/// bomb is over by this before it could even be looked at. Only those who left their group are left.
fn kill_groups(table: &Table) {
    // The warden leads a group of its own; a child is in it for the moment before it leaves.
    let own = getpgrp();
    let children = table.children().unwrap_or_default().into_iter();
    // A child of ours keeps its number until we reap it, and so its group's.
    let groups: HashSet<_> = children
        .filter_map(|pid| getpgid(Some(Pid::from_raw(pid))).ok())
        .collect();
    for group in groups.into_iter().filter(|group| *group != own) {
        // An error means that all of them have ended.
        let _ = killpg(group, Signal::SIGKILL);
    }
}

/// Stops all descendants before any is killed: one that is stopped cannot fork, so each look finds fewer new
/// ones, and killing cannot be outrun. Returns them all.
fn freeze(table: &mut Table) -> HashSet<i32> {
    let mut frozen = HashSet::new();
    loop {
        // The table can be unreadable for a moment, when the machine is out of descriptors or memory. There is
        // nothing better to do than to kill those known and come back.
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

/// The number could have passed to a stranger since it was read, were all numbers used up in between; a child
/// of ours keeps its number until we reap it, which we do not do here.
fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Waits until a child may have ended; false when it took too long.
fn someone_ended() -> bool {
    let before = std::time::Instant::now();
    let waited = signals::wait(&mut [], Some(LOOK_AGAIN));
    waited.is_ok() && before.elapsed() < LOOK_AGAIN
}
