//! How much of the raw rate of starting processes is left when wardens start them.
//!
//!     cargo run --release -p sandbox --example spawn_rate
#![allow(clippy::print_stdout)]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use sandbox::{Input, Isolation, Launcher, Limits, Spec};

const RUNS: u32 = 2000;
/// The machine is shared: the best of some rounds is what it can do.
const ROUNDS: u32 = 5;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("warden") {
        return sandbox::warden::run();
    }
    let kinds: [fn(u32); 3] = [raw, free, limited];
    for threads in [1, 2] {
        let mut best = [0.0_f64; 3];
        for _ in 0..ROUNDS {
            for (best, work) in best.iter_mut().zip(kinds) {
                *best = best.max(on_threads(threads, work));
            }
        }
        let [raw, free, limited] = best;
        println!(
            "{threads} threads: raw {raw:.0}/s, wardens {free:.0}/s ({:.2}), with limits {limited:.0}/s ({:.2})",
            free / raw,
            limited / raw
        );
    }
    ExitCode::SUCCESS
}

/// Runs per second when this many threads share the work.
fn on_threads(threads: u32, work: fn(u32)) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(RUNS / threads));
        }
    });
    f64::from(RUNS) / start.elapsed().as_secs_f64()
}

fn raw(runs: u32) {
    for _ in 0..runs {
        let status = Command::new("/bin/true").status().expect("/bin/true starts");
        assert!(status.success());
    }
}

fn free(runs: u32) {
    through_warden(runs, Limits::default());
}

/// With the limits that make the warden look after the command while it runs.
fn limited(runs: u32) {
    let second = Some(Duration::from_secs(1));
    through_warden(
        runs,
        Limits {
            wall: second,
            cpu: second,
            memory: Some(1 << 28),
            processes: Some(64),
            ..Limits::default()
        },
    );
}

fn through_warden(runs: u32, limits: Limits) {
    let mut warden = Launcher::this_binary(Isolation::None)
        .start()
        .expect("a warden starts");
    let spec = Spec {
        argv: vec!["/bin/true".into()],
        env: Vec::new(),
        directory: "/".into(),
        input: Input::Bytes(Vec::new()),
        limits,
        keep: 1 << 20,
    };
    for _ in 0..runs {
        let ticket = warden.ticket();
        let outcome = warden.run(&ticket, &spec).expect("the warden runs /bin/true");
        assert_eq!(outcome.exit_code, Some(0));
    }
}
