//! The CPU time of a process with all its descendants.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

/// What `/proc/PID/stat` says about one process that the benchmark has started, or that descends from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessTimes {
    parent: u32,
    /// Of the process, and of its descendants that have ended and that it has waited for.
    ticks: u64,
}

/// CPU time that this process and its descendants have used since its start. A descendant that runs now is counted, and so is
/// one that has ended, if its parent is still there and has waited for it.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("the system has no clock ticks")?;
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc").context("could not read /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have ended meanwhile.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(times) = ProcessTimes::parse(&stat) {
            processes.insert(pid, times);
        }
    }
    let ticks = ticks_of_tree(&processes, pid);
    Ok(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

impl ProcessTimes {
    fn parse(stat: &str) -> Option<ProcessTimes> {
        // The name of the program, in parentheses, may contain anything.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let times = fields.get(11..15)?;
        let ticks = times.iter().map(|field| field.parse::<u64>());
        Some(ProcessTimes {
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks.sum::<Result<u64, _>>().ok()?,
        })
    }
}

fn ticks_of_tree(processes: &HashMap<u32, ProcessTimes>, root: u32) -> u64 {
    let descends = |pid: u32| {
        let mut ancestors = std::iter::successors(Some(pid), |pid| Some(processes.get(pid)?.parent));
        ancestors.any(|ancestor| ancestor == root)
    };
    let tree = processes.iter().filter(|(pid, _)| descends(**pid));
    tree.map(|(_, times)| times.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_are_read_whatever_its_name_is() {
        let check = |stat: &str, expected: Option<(u32, u64)>| {
            let expected = expected.map(|(parent, ticks)| ProcessTimes { parent, ticks });
            assert_eq!(ProcessTimes::parse(stat), expected, "{stat}");
        };
        let rest = "S 7 1 1 0 -1 4194560 0 0 0 0 10 20 300 4000 20 0 1 0 5";
        check(&format!("42 (sh) {rest}"), Some((7, 4330)));
        check(&format!("42 (a) S 1 b) ) {rest}"), Some((7, 4330)));
        check("42 (sh) S 7 1", None);
        check("", None);
    }

    #[test]
    fn only_descendants_count() {
        let times = |parent, ticks| ProcessTimes { parent, ticks };
        let processes = HashMap::from([
            (1, times(0, 1000)),
            (10, times(1, 1)),
            (20, times(10, 20)),
            (30, times(20, 300)),
            (40, times(1, 4000)),
        ]);
        assert_eq!(ticks_of_tree(&processes, 10), 321);
        assert_eq!(ticks_of_tree(&processes, 30), 300);
        assert_eq!(ticks_of_tree(&processes, 50), 0);
    }

    #[test]
    fn the_time_of_an_ended_child_counts() {
        let own = std::process::id();
        let before = cpu_time(own).unwrap();
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let status = std::process::Command::new("sh")
            .args(["-c", spin])
            .status()
            .unwrap();
        assert!(status.success());
        assert!(cpu_time(own).unwrap() > before);
    }
}
