//! `conclave spawns THREADS SECONDS`, an internal subcommand: how many processes a small process can spawn.
//!
//! It is a process of its own because spawning from a large process is slower, and a slow baseline would flatter the figures
//! that are compared with it.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use crate::percentile::percentile;

pub const SUBCOMMAND: &str = "spawns";

/// A program that does nothing and exists on every machine.
pub(crate) const PROGRAM: &str = "/bin/true";

/// Prints the number of spawns, the seconds they took in all, and the median seconds of one.
pub fn run() -> ExitCode {
    let mut arguments = std::env::args().skip(2);
    let threads = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let began = Instant::now();
    let deadline = began + Duration::from_secs_f64(seconds);
    let workers: Vec<_> = (0..threads)
        .map(|_| thread::spawn(move || spawn_until(deadline)))
        .collect();
    let mut durations = Vec::new();
    for worker in workers {
        match worker.join() {
            Ok(Some(more)) => durations.extend(more),
            _ => return ExitCode::FAILURE,
        }
    }
    let took = began.elapsed();
    let (count, seconds) = (durations.len(), took.as_secs_f64());
    let median = percentile(&mut durations, 50).as_secs_f64();
    match writeln!(std::io::stdout(), "{count} {seconds} {median}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn spawn_until(deadline: Instant) -> Option<Vec<Duration>> {
    let mut durations = Vec::new();
    while Instant::now() < deadline {
        let began = Instant::now();
        // The command sets nothing else, so that the standard library can use posix_spawn.
        let status = Command::new(PROGRAM).status().ok()?;
        if !status.success() {
            return None;
        }
        durations.push(began.elapsed());
    }
    Some(durations)
}
