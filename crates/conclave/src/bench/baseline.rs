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
