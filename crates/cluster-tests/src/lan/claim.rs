//! Which networks are taken, and by whom: the switch of each has the test's process for its alias.

use std::fs::{self, File};

use nix::fcntl::{Flock, FlockArg};

use super::{Host, switch};
use crate::ip::{ip, try_ip};

/// Taking and sweeping, by one test at a time. Without it a sweep could hit a network that was just taken.
pub(super) fn lock() -> Flock<File> {
    let path = std::env::temp_dir().join("conclave-tests-lan.lock");
    let file = File::options().create(true).append(true).open(path);
    Flock::lock(file.expect("a lock file"), FlockArg::LockExclusive).expect("a lock")
}

pub(super) fn take(number: u32) -> Result<(), String> {
    let switch = switch(number);
    try_ip(&format!("link add {switch} type bridge"))?;
    ip(&format!("link set dev {switch} alias {}", me()));
    Ok(())
}

/// Removes the networks of tests that were killed, and what still runs on them.
pub(super) fn sweep() {
    for entry in fs::read_dir("/sys/class/net").expect("/sys").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_switch = name
            .strip_prefix("cvl")
            .is_some_and(|number| number.parse::<u32>().is_ok());
        let owner = fs::read_to_string(entry.path().join("ifalias")).unwrap_or_default();
        if !is_switch || lives(owner.trim()) {
            continue;
        }
        for namespace in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let namespace = namespace.file_name().to_string_lossy().into_owned();
            if namespace.starts_with(&format!("{name}n")) {
                Host::clear_away(&namespace);
            }
        }
        let _ = try_ip(&format!("link del {name}"));
    }
}

fn me() -> String {
    let pid = std::process::id();
    format!("{pid}:{}", started(pid).unwrap_or_default())
}

fn lives(owner: &str) -> bool {
    let Some((pid, start)) = owner.split_once(':') else {
        return false;
    };
    pid.parse().ok().and_then(started).as_deref() == Some(start)
}

/// When a process began, which tells it from a later one with the same number.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything but ends with the last parenthesis.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19).map(str::to_string)
}
