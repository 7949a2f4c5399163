//! What was measured, and whether it is good enough.

use serde::Serialize;

use super::adds::Adds;
use super::baseline::Baseline;
use super::claims::Claims;
use super::latency::Latency;
use super::throughput::Throughput;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// Whether the machine was left alone meanwhile; if not, the figures say little.
    pub(crate) steady: bool,
    pub(crate) baseline: Baseline,
    pub(crate) throughput: Throughput,
    pub(crate) latency: Latency,
    pub(crate) adds: Vec<Adds>,
    pub(crate) claims: Vec<Claims>,
    pub(crate) memory: Memory,
    pub(crate) start: Start,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) queued: usize,
    pub(crate) resident_bytes: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Start {
    pub(crate) empty_seconds: f64,
    pub(crate) queued: usize,
    pub(crate) full_seconds: f64,
    pub(crate) full_resident_bytes: u64,
}

/// Something that a release has to reach.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) what: &'static str,
    pub(crate) wanted: String,
    pub(crate) found: String,
    pub(crate) met: bool,
}

const RATIO: f64 = 0.5;
const OVER_SPAWN_SECONDS: f64 = 0.005;
const CLAIM_GROWTH: f64 = 2.0;
const MEMORY_MIB: u64 = 300;
const EMPTY_START_SECONDS: f64 = 1.0;
const FULL_START_SECONDS: f64 = 2.0;

pub(super) fn target(what: &'static str, wanted: String, found: String, met: bool) -> Target {
    Target {
        what,
        wanted,
        found,
        met,
    }
}

impl Figures {
    /// Against the bare spawns of two threads.
    pub(crate) fn ratio(&self) -> f64 {
        self.throughput.per_second / self.baseline.two_threads_per_second
    }

    /// How much longer a claim takes from the largest backlog than from the smallest.
    fn claim_growth(&self, p50: impl Fn(&Claims) -> f64) -> f64 {
        match (self.claims.first(), self.claims.last()) {
            (Some(first), Some(last)) if p50(first) > 0.0 => p50(last) / p50(first),
            _ => 1.0,
        }
    }

    pub(crate) fn targets(&self) -> Vec<Target> {
        let growth = self
            .claim_growth(|claims| claims.one_p50_seconds)
            .max(self.claim_growth(|claims| claims.sixteen_p50_seconds));
        let resident = self.memory.resident_bytes.max(self.start.full_resident_bytes);
        let over_spawn = self.latency.p50_seconds - self.baseline.p50_seconds;
        vec![
            target(
                "throughput over bare spawns of 2 threads",
                format!(">= {RATIO}"),
                format!("{:.2}", self.ratio()),
                self.ratio() >= RATIO,
            ),
            target(
                "idle p50 over one bare spawn",
                format!("<= {:.1} ms", OVER_SPAWN_SECONDS * 1e3),
                format!("{:.2} ms", over_spawn * 1e3),
                over_spawn <= OVER_SPAWN_SECONDS,
            ),
            target(
                "claim from the largest backlog over the smallest",
                format!("<= {CLAIM_GROWTH}"),
                format!("{growth:.2}"),
                growth <= CLAIM_GROWTH,
            ),
            target(
                "resident memory with the largest backlog",
                format!("< {MEMORY_MIB} MiB"),
                format!("{} MiB", resident >> 20),
                resident < MEMORY_MIB << 20,
            ),
            target(
                "start with an empty store",
                format!("< {EMPTY_START_SECONDS} s"),
                format!("{:.3} s", self.start.empty_seconds),
                self.start.empty_seconds < EMPTY_START_SECONDS,
            ),
            target(
                "start with the largest backlog",
                format!("< {FULL_START_SECONDS} s"),
                format!("{:.3} s", self.start.full_seconds),
                self.start.full_seconds < FULL_START_SECONDS,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let claims = |backlog, p50| Claims {
            backlog,
            one_p50_seconds: p50,
            sixteen_p50_seconds: p50,
        };
        Figures {
            steady: true,
            baseline: Baseline {
                one_thread_per_second: 1000.0,
                two_threads_per_second: 2000.0,
                p50_seconds: 0.001,
            },
            throughput: Throughput {
                tasks: 1000,
                seconds: 1.0,
                per_second: 1000.0,
            },
            latency: Latency {
                rounds: 1,
                p50_seconds: 0.006,
                p99_seconds: 0.007,
            },
            adds: Vec::new(),
            claims: vec![claims(1000, 0.001), claims(1_000_000, 0.002)],
            memory: Memory {
                queued: 1,
                resident_bytes: (300 << 20) - 1,
            },
            start: Start {
                empty_seconds: 0.9,
                queued: 1,
                full_seconds: 1.9,
                full_resident_bytes: 0,
            },
        }
    }

    #[test]
    fn targets_are_met_at_their_edge_and_not_beyond() {
        assert!(figures().targets().iter().all(|target| target.met));
        let check = |spoil: fn(&mut Figures)| {
            let mut figures = figures();
            spoil(&mut figures);
            assert_eq!(figures.targets().iter().filter(|target| !target.met).count(), 1);
        };
        check(|figures| figures.throughput.per_second = 999.0);
        check(|figures| figures.latency.p50_seconds = 0.0061);
        check(|figures| figures.claims[1].sixteen_p50_seconds = 0.0021);
        check(|figures| figures.start.full_resident_bytes = 300 << 20);
        check(|figures| figures.start.empty_seconds = 1.0);
        check(|figures| figures.start.full_seconds = 2.0);
    }
}
