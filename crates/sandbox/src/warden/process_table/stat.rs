//! One line of `/proc/PID/stat`.

use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

/// The fields of `/proc/PID/stat` from which the warden measures the process tree of a command without a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::warden) struct ProcessStat {
    pub(in crate::warden) parent: i32,
    /// The process has ended but its parent has not reaped it.
    ended: bool,
    threads: u32,
    /// Clock ticks used by the process and by the children that it has reaped.
    ticks: u64,
    /// Resident pages.
    pages: u64,
}

impl ProcessStat {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        // The name is in parentheses and may itself contain parentheses, spaces or any other byte.
        let name_ends = line.iter().rposition(|byte| *byte == b')')?;
        let fields: Vec<&str> = str::from_utf8(&line[name_ends + 1..])
            .ok()?
            .split_ascii_whitespace()
            .collect();
        // proc(5) counts fields from 1, and the third one is the first after the name.
        let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
        const PARENT: usize = 4;
        const TIMES: std::ops::RangeInclusive<usize> = 14..=17;
        const THREADS: usize = 20;
        const RESIDENT: usize = 24;
        let ticks = TIMES.map(number).sum::<Option<i64>>()?;
        Some(Self {
            parent: i32::try_from(number(PARENT)?).ok()?,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            threads: u32::try_from(number(THREADS)?).ok()?,
            ticks: u64::try_from(ticks).ok()?,
            pages: u64::try_from(number(RESIDENT)?).ok()?,
        })
    }

    /// The number of live threads. A zombie has none, although its CPU time still counts.
    pub(in crate::warden) fn live_threads(&self) -> u32 {
        if self.ended { 0 } else { self.threads }
    }

    pub(in crate::warden) fn cpu(&self) -> Duration {
        Duration::from_secs(self.ticks) / constant(SysconfVar::CLK_TCK, 100)
    }

    pub(in crate::warden) fn resident(&self) -> u64 {
        self.pages * u64::from(constant(SysconfVar::PAGE_SIZE, 4096))
    }
}

/// A constant of the machine, which libc knows without a system call.
fn constant(name: SysconfVar, usual: u32) -> u32 {
    sysconf(name)
        .ok()
        .flatten()
        .and_then(|value| u32::try_from(value).ok())
        .unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_with_any_process_name() {
        fn check(name: &[u8], state: &str, expected: Option<(i32, bool, u32, u64, u64)>) {
            let rest = format!(
                " {state} 7 7 7 0 -1 4194304 134 0 0 0 1 2 3 4 20 0 6 0 5 2818048 390 18446744073709551615 1"
            );
            let line = [b"42 (", name, b")", rest.as_bytes()].concat();
            let stat = ProcessStat::parse(&line)
                .map(|stat| (stat.parent, stat.ended, stat.threads, stat.ticks, stat.pages));
            assert_eq!(stat, expected, "{}", line.escape_ascii());
        }
        check(b"cat", "R", Some((7, false, 6, 10, 390)));
        check(b"a) R 1 (b", "S", Some((7, false, 6, 10, 390)));
        check(b"\xff\n ", "Z", Some((7, true, 6, 10, 390)));
        check(b"", "X", Some((7, true, 6, 10, 390)));
        assert_eq!(ProcessStat::parse(b""), None);
        assert_eq!(ProcessStat::parse(b"42 (cat) R 7"), None);
    }
}
