//! Enforces limits that the kernel does not enforce for a whole process tree, by sampling.
//!
//! The warden samples only if such a limit is set, and only after the command has run for a while: a short command is
//! checked against the final measurements.

use std::io;
use std::time::{Duration, Instant};

use super::process_table::{ProcessStat, ProcessTable};
use crate::clock::own_cpu_time;
use crate::outcome::CommandEndReason;
use crate::spec::CommandLimits;

const FIRST_SAMPLE_AFTER: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(10);
/// Sampling takes at most a tenth of a core: the pause after a sample is at least this many times its own CPU time,
/// so samples become rarer if `/proc` is large. Time spent waiting for a core does not count, because limits must be
/// enforced on a busy machine too.
const MIN_PAUSE_PER_SAMPLE_TIME: u32 = 10;

/// Samples the process tree of a command without a cell in `/proc` and compares it with the command's limits.
#[derive(Debug)]
pub(super) struct LimitSampler {
    limits: CommandLimits,
    next: Instant,
    cores: u32,
    /// The largest sum of memory in one sample.
    pub(super) peak: u64,
}

/// Threads, CPU time and memory of all processes of a command without a cell, summed in one sample of `/proc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SampleTotals {
    /// Every process has at least one thread.
    threads: u32,
    cpu: Duration,
    /// Pages of several processes count in each of them: never too low, often too high.
    resident: u64,
}

impl LimitSampler {
    /// Returns `None` if there is no limit to sample for.
    pub(super) fn new(limits: &CommandLimits, start: Instant) -> Option<Self> {
        if limits.cpu.is_none() && limits.memory.is_none() && limits.processes.is_none() {
            return None;
        }
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Some(Self {
            limits: *limits,
            next: start + FIRST_SAMPLE_AFTER,
            cores,
            peak: 0,
        })
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Takes a sample if it is due, and returns the exceeded limit, if there is one.
    pub(super) fn sample_if_due(&mut self, table: &mut ProcessTable) -> Option<CommandEndReason> {
        if Instant::now() < self.next {
            return None;
        }
        let before = own_cpu_time();
        // A failed sample is repeated with the next one.
        let (reason, pause) = self.sample(table).unwrap_or((None, INTERVAL));
        let took = own_cpu_time().saturating_sub(before);
        self.next = Instant::now() + pause.max(took * MIN_PAUSE_PER_SAMPLE_TIME);
        reason
    }

    fn sample(&mut self, table: &mut ProcessTable) -> io::Result<(Option<CommandEndReason>, Duration)> {
        let stats = table.stats(self.limits.processes)?;
        let sum = SampleTotals::of(&stats);
        if self.limits.processes.is_some_and(|limit| sum.threads > limit) {
            return Ok((Some(CommandEndReason::ProcessLimit), INTERVAL));
        }
        if self.limits.cpu.is_some_and(|limit| sum.cpu > limit) {
            return Ok((Some(CommandEndReason::TimeLimit), INTERVAL));
        }
        let memory = match self.limits.memory {
            // The cheap sum is often too high, so it can only show that the limit is not exceeded.
            Some(limit) if sum.resident > limit && stats.len() > 1 => table.total_memory(&stats),
            _ => sum.resident,
        };
        self.peak = self.peak.max(memory);
        let exceeded = self.limits.memory.is_some_and(|limit| memory > limit);
        Ok((
            exceeded.then_some(CommandEndReason::MemoryLimit),
            self.pause(sum.cpu),
        ))
    }

    /// CPU time cannot run out sooner than with all cores busy, so if it is the only limit, the next sample can wait
    /// that long.
    fn pause(&self, used: Duration) -> Duration {
        match self.limits {
            CommandLimits {
                cpu: Some(limit),
                memory: None,
                processes: None,
                ..
            } => INTERVAL.max(limit.saturating_sub(used) / self.cores),
            _ => INTERVAL,
        }
    }
}

impl SampleTotals {
    fn of(stats: &[(i32, ProcessStat)]) -> Self {
        let mut sum = Self::default();
        for (_, stat) in stats {
            sum.threads += stat.live_threads();
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
    fn samples_are_rare_if_only_cpu_time_is_limited() {
        fn check(limits: CommandLimits, used_ms: u64, expected_ms: u64) {
            let sampler = LimitSampler {
                cores: 4,
                ..LimitSampler::new(&limits, Instant::now()).unwrap()
            };
            let pause = sampler.pause(Duration::from_millis(used_ms));
            assert_eq!(pause, Duration::from_millis(expected_ms), "{limits:?} {used_ms}");
        }
        let cpu = CommandLimits {
            cpu: Some(Duration::from_secs(1)),
            ..CommandLimits::default()
        };
        check(cpu, 0, 250);
        check(cpu, 800, 50);
        check(cpu, 980, 10);
        check(cpu, 2000, 10);
        check(
            CommandLimits {
                memory: Some(1),
                ..cpu
            },
            0,
            10,
        );
        check(
            CommandLimits {
                processes: Some(1),
                ..cpu
            },
            0,
            10,
        );
        check(
            CommandLimits {
                memory: Some(1),
                ..CommandLimits::default()
            },
            0,
            10,
        );
    }

    #[test]
    fn without_such_a_limit_there_is_no_sampler() {
        let limits = CommandLimits {
            wall: Some(Duration::ZERO),
            output: Some(0),
            stack: Some(0),
            ..CommandLimits::default()
        };
        assert!(LimitSampler::new(&limits, Instant::now()).is_none());
    }
}
