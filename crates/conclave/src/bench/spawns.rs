//! `conclave spawns THREADS SECONDS`, which nobody types: how many bare spawns a small process manages.
//!
//! A process of its own, because a spawn from a large one is slower, and that would flatter us.

use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use super::spread::percentile;
use crate::print::Out;

pub(crate) const VERB: &str = "spawns";

/// Does nothing, and is everywhere.
pub(super) const PROGRAM: &str = "/bin/true";

/// Prints how many were spawned, within how many seconds, and the median in seconds.
pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..threads)
        .map(|_| thread::spawn(move || spawn_until(until)))
        .collect();
    let mut spans = Vec::new();
    for worker in workers {
        match worker.join() {
            Ok(Some(more)) => spans.extend(more),
            _ => return ExitCode::FAILURE,
        }
    }
    let took = began.elapsed();
    let line = format!(
        "{} {} {}",
        spans.len(),
        took.as_secs_f64(),
        percentile(&mut spans, 50).as_secs_f64()
    );
    match Out::open().line(line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn spawn_until(until: Instant) -> Option<Vec<Duration>> {
    let mut spans = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        // Nothing is set on the command, so that the library can use posix_spawn.
        let status = Command::new(PROGRAM).status().ok()?;
        if !status.success() {
            return None;
        }
        spans.push(began.elapsed());
    }
    Some(spans)
}
