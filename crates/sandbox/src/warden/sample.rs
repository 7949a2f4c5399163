//! Limits that the kernel does not keep for a whole tree of processes: kept by looking now and then.
//!
//! Only where such a limit is set, and not before the command has lived for a while: one that is over soon is
//! judged by the exact figures at its end.

use std::io;
use std::time::{Duration, Instant};

use super::tree::{Stat, Table};
use crate::clock::own_time;
use crate::outcome::Reason;
use crate::spec::Limits;

const FIRST: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(10);
/// Looking may take this part of a core at most: where `/proc` is large, looks become rarer instead. What we waited for
/// a core does not count: on a busy machine, limits are to be kept all the same.
const SHARE: u32 = 10;

#[derive(Debug)]
pub(super) struct Sampler {
    limits: Limits,
    next: Instant,
    cores: u32,
    /// The largest sum of memory that was seen.
    pub(super) peak: u64,
}

/// What one look saw, summed over all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    /// A process has at least one.
    threads: u32,
    cpu: Duration,
    /// Pages in several processes count in each: never too low, often too high.
    resident: u64,
}

impl Sampler {
    /// None where there is nothing to look for.
    pub(super) fn new(limits: &Limits, start: Instant) -> Option<Self> {
        if limits.cpu.is_none() && limits.memory.is_none() && limits.processes.is_none() {
            return None;
        }
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Some(Self {
            limits: *limits,
            next: start + FIRST,
            cores,
            peak: 0,
        })
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Looks if it is time to, and says which limit is exceeded.
    pub(super) fn look_if_due(&mut self, table: &mut Table) -> Option<Reason> {
        if Instant::now() < self.next {
            return None;
        }
        let before = own_time();
        // A look that fails is like one that comes later.
        let (reason, pause) = self.look(table).unwrap_or((None, INTERVAL));
        let took = own_time().saturating_sub(before);
        self.next = Instant::now() + pause.max(took * SHARE);
        reason
    }

    fn look(&mut self, table: &mut Table) -> io::Result<(Option<Reason>, Duration)> {
        let stats = table.stats(self.limits.processes)?;
        let sum = Sum::of(&stats);
        if self.limits.processes.is_some_and(|limit| sum.threads > limit) {
            return Ok((Some(Reason::ProcessLimit), INTERVAL));
        }
        if self.limits.cpu.is_some_and(|limit| sum.cpu > limit) {
            return Ok((Some(Reason::TimeLimit), INTERVAL));
        }
        let memory = match self.limits.memory {
            // The cheap sum is often too high, so it is only good for staying below the limit.
            Some(limit) if sum.resident > limit && stats.len() > 1 => table.memory_together(&stats),
            _ => sum.resident,
        };
        self.peak = self.peak.max(memory);
        let exceeded = self.limits.memory.is_some_and(|limit| memory > limit);
        Ok((exceeded.then_some(Reason::MemoryLimit), self.pause(sum.cpu)))
    }

    /// CPU time cannot run out sooner than with all cores at work, so where it is the only thing to look for,
    /// there is no need to look before.
    fn pause(&self, used: Duration) -> Duration {
        match self.limits {
            Limits {
                cpu: Some(limit),
                memory: None,
                processes: None,
                ..
            } => INTERVAL.max(limit.saturating_sub(used) / self.cores),
            _ => INTERVAL,
        }
    }
}

impl Sum {
    fn of(stats: &[(i32, Stat)]) -> Self {
        let mut sum = Self::default();
        for (_, stat) in stats {
            sum.threads += stat.alive();
            sum.cpu += stat.cpu();
            sum.resident += stat.resident();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_when_only_cpu_time_matters() {
        fn check(limits: Limits, used_ms: u64, expected_ms: u64) {
            let sampler = Sampler {
                cores: 4,
                ..Sampler::new(&limits, Instant::now()).unwrap()
            };
            let pause = sampler.pause(Duration::from_millis(used_ms));
            assert_eq!(pause, Duration::from_millis(expected_ms), "{limits:?} {used_ms}");
        }
        let cpu = Limits {
            cpu: Some(Duration::from_secs(1)),
            ..Limits::default()
        };
        check(cpu, 0, 250);
        check(cpu, 800, 50);
        check(cpu, 980, 10);
        check(cpu, 2000, 10);
        check(
            Limits {
                memory: Some(1),
                ..cpu
            },
            0,
            10,
        );
        check(
            Limits {
                processes: Some(1),
                ..cpu
            },
            0,
            10,
        );
        check(
            Limits {
                memory: Some(1),
                ..Limits::default()
            },
            0,
            10,
        );
    }

    #[test]
    fn without_such_a_limit_nobody_looks() {
        let limits = Limits {
            wall: Some(Duration::ZERO),
            output: Some(0),
            stack: Some(0),
            ..Limits::default()
        };
        assert!(Sampler::new(&limits, Instant::now()).is_none());
    }
}
