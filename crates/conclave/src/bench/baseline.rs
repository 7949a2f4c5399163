//! What a bare spawn-and-wait costs: the unit of all that follows.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::spawns;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Baseline {
    pub(crate) one_thread_per_second: f64,
    pub(crate) two_threads_per_second: f64,
    /// On one thread.
    pub(crate) p50_seconds: f64,
}

/// How far two measurements may lie apart on a machine that is left alone.
const STEADY: f64 = 1.15;

impl Baseline {
    /// The better of two: what else the machine had to do in between must not make us look good.
    pub(super) fn better(self, other: Baseline) -> Baseline {
        Baseline {
            one_thread_per_second: self.one_thread_per_second.max(other.one_thread_per_second),
            two_threads_per_second: self.two_threads_per_second.max(other.two_threads_per_second),
            p50_seconds: self.p50_seconds.min(other.p50_seconds),
        }
    }

    /// Whether the machine was the same both times.
    pub(super) fn agrees_with(&self, other: &Baseline) -> bool {
        let ratio = self.two_threads_per_second / other.two_threads_per_second;
        (1.0 / STEADY..=STEADY).contains(&ratio)
    }
}

pub(super) fn measure(time: Duration) -> Result<Baseline> {
    let (one_thread_per_second, p50_seconds) = spawns(1, time)?;
    let (two_threads_per_second, _) = spawns(2, time)?;
    Ok(Baseline {
        one_thread_per_second,
        two_threads_per_second,
        p50_seconds,
    })
}

fn spawns(threads: usize, time: Duration) -> Result<(f64, f64)> {
    let output = Command::new("/proc/self/exe")
        .args([
            spawns::VERB.to_string(),
            threads.to_string(),
            time.as_secs_f64().to_string(),
        ])
        .output()
        .context("could not start the process that measures bare spawns")?;
    ensure!(
        output.status.success(),
        "the process that measures bare spawns failed; is there a {}?",
        spawns::PROGRAM
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match numbers[..] {
        [count, seconds, p50] if seconds > 0.0 => Ok((count / seconds, p50)),
        _ => anyhow::bail!("the process that measures bare spawns said '{}'", text.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(rate: f64) -> Baseline {
        Baseline {
            one_thread_per_second: rate / 2.0,
            two_threads_per_second: rate,
            p50_seconds: 1.0 / rate,
        }
    }

    #[test]
    fn the_better_one_counts_and_unrest_is_seen() {
        let (quiet, busy) = (baseline(2000.0), baseline(1400.0));
        assert_eq!(busy.better(quiet).two_threads_per_second, 2000.0);
        assert_eq!(quiet.better(busy).p50_seconds, 1.0 / 2000.0);
        assert!(!quiet.agrees_with(&busy) && !busy.agrees_with(&quiet));
        assert!(quiet.agrees_with(&baseline(1900.0)));
    }
}
