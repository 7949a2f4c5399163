//! The cost of spawning a process and waiting for it: the baseline of every other figure.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::spawns;

/// The baseline of the benchmark: rate and median duration of bare process spawns on this machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SpawnBaseline {
    pub(crate) one_thread_per_second: f64,
    pub(crate) two_threads_per_second: f64,
    /// On one thread.
    pub(crate) p50_seconds: f64,
}

/// Largest ratio between two measurements on a machine without other load.
const STEADY_RATIO: f64 = 1.15;

impl SpawnBaseline {
    /// The faster value of each figure. Other load makes spawns slower, and a slow baseline would flatter the figures
    /// that are compared with it.
    pub(crate) fn faster_of(self, other: SpawnBaseline) -> SpawnBaseline {
        SpawnBaseline {
            one_thread_per_second: self.one_thread_per_second.max(other.one_thread_per_second),
            two_threads_per_second: self.two_threads_per_second.max(other.two_threads_per_second),
            p50_seconds: self.p50_seconds.min(other.p50_seconds),
        }
    }

    /// Whether the machine was equally fast in both measurements.
    pub(crate) fn agrees_with(&self, other: &SpawnBaseline) -> bool {
        let ratio = self.two_threads_per_second / other.two_threads_per_second;
        (1.0 / STEADY_RATIO..=STEADY_RATIO).contains(&ratio)
    }
}

pub(crate) fn measure(time: Duration) -> Result<SpawnBaseline> {
    let (one_thread_per_second, p50_seconds) = measure_spawns(1, time)?;
    let (two_threads_per_second, _) = measure_spawns(2, time)?;
    Ok(SpawnBaseline {
        one_thread_per_second,
        two_threads_per_second,
        p50_seconds,
    })
}

/// Spawns per second, and the median seconds of one spawn.
fn measure_spawns(threads: usize, time: Duration) -> Result<(f64, f64)> {
    let output = Command::new("/proc/self/exe")
        .args([
            spawns::SUBCOMMAND.to_string(),
            threads.to_string(),
            time.as_secs_f64().to_string(),
        ])
        .output()
        .context("could not start the process that measures bare spawns")?;
    ensure!(
        output.status.success(),
        "the process that measures bare spawns failed; check that {} exists",
        spawns::PROGRAM
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [count, seconds, p50] if seconds > 0.0 => Ok((count / seconds, p50)),
        _ => anyhow::bail!(
            "the process that measures bare spawns printed '{}' instead of three numbers",
            text.trim()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(rate: f64) -> SpawnBaseline {
        SpawnBaseline {
            one_thread_per_second: rate / 2.0,
            two_threads_per_second: rate,
            p50_seconds: 1.0 / rate,
        }
    }

    #[test]
    fn the_faster_measurement_counts_and_a_large_difference_is_noticed() {
        let (quiet, busy) = (baseline(2000.0), baseline(1400.0));
        assert_eq!(busy.faster_of(quiet).two_threads_per_second, 2000.0);
        assert_eq!(quiet.faster_of(busy).p50_seconds, 1.0 / 2000.0);
        assert!(!quiet.agrees_with(&busy) && !busy.agrees_with(&quiet));
        assert!(quiet.agrees_with(&baseline(1900.0)));
    }
}
