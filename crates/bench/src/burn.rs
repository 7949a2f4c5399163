//! `conclave burn ROUNDS`, an internal subcommand: a CPU-bound loop that prints its own CPU time in seconds.

use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;

use nix::sys::resource::{UsageWho, getrusage};

pub const SUBCOMMAND: &str = "burn";

/// Computes something that takes the same time on each call.
pub(crate) fn iterations(rounds: u64) {
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round));
    }
}

pub fn run() -> ExitCode {
    let rounds: u64 = std::env::args()
        .nth(2)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    iterations(rounds);
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return ExitCode::FAILURE;
    };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu = seconds(usage.user_time()) + seconds(usage.system_time());
    match writeln!(std::io::stdout(), "{cpu}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
