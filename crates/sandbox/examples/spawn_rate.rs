//! Measures the rate at which wardens start processes, with and without cells, compared to starting them directly.
//!
//!     cargo run --release -p sandbox --example spawn_rate [PROGRAM ARGUMENT...]
//!
//! Without a program it starts `/bin/true`.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(clippy::print_stdout)]

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use sandbox::cgroup::CgroupRoot;
use sandbox::{
    CellSettings, CommandInput, CommandIsolation, CommandLimits, CommandSpec, RootEntry, WardenLauncher,
};

const RUNS: u32 = 1000;
/// The machine may be busy with other work, so the best of several rounds counts.
const ROUNDS: u32 = 3;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("warden") {
        return sandbox::warden::run();
    }
    let mut argv: Vec<OsString> = std::env::args_os().skip(1).collect();
    if argv.is_empty() {
        argv.push("/bin/true".into());
    }
    let argv = argv.as_slice();
    let cgroup_root = CgroupRoot::prepare("conclave-spawn-rate", None).expect("control groups");
    let cell = CommandIsolation::Cell(Box::new(CellSettings {
        root_entries: RootEntry::of_host().expect("the host's programs can be listed"),
        user: 1_900_000_000,
        subordinate_ids: None,
        max_open_files: None,
        group: Some((cgroup_root.clone(), "slot".into())),
        default_limits: sandbox::DefaultCommandLimits::default(),
        space: 64 << 20,
        max_files: 10_000,
        networks: Vec::new(),
    }));
    let none = CommandIsolation::None;
    for threads in [1, 2] {
        let mut best = [SpawnTimes::default(); 3];
        for _ in 0..ROUNDS {
            best[0].keep(on_threads(threads, |_| raw(argv, RUNS / threads)));
            for (index, isolation) in [(1, &none), (2, &cell)] {
                let work = |thread| through_warden(&isolation.for_warden(thread), argv, RUNS / threads);
                best[index].keep(on_threads(threads, work));
            }
        }
        for (name, times) in ["raw", "wardens", "cells"].iter().zip(best) {
            println!(
                "{threads} threads, {name:8} {:6.0}/s ({:.2})  p50 of a run {:.3} ms, of making ready {:.3} ms",
                times.rate,
                times.rate / best[0].rate,
                times.run.as_secs_f64() * 1e3,
                times.renew.as_secs_f64() * 1e3,
            );
        }
    }
    cgroup_root
        .remove()
        .expect("nothing is left in the control groups");
    ExitCode::SUCCESS
}

/// One result of the `spawn_rate` example: process starts per second, and median durations of a run and its renewal.
#[derive(Clone, Copy, Default)]
struct SpawnTimes {
    rate: f64,
    run: Duration,
    renew: Duration,
}

impl SpawnTimes {
    fn keep(&mut self, other: SpawnTimes) {
        if other.rate > self.rate {
            *self = other;
        }
    }
}

/// Measures work that this many threads share. The median durations are those of the first thread.
fn on_threads(threads: u32, work: impl Fn(u32) -> SpawnTimes + Sync) -> SpawnTimes {
    let start = Instant::now();
    let work = &work;
    let times: Vec<SpawnTimes> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread fails"))
            .collect()
    });
    SpawnTimes {
        rate: f64::from(RUNS) / start.elapsed().as_secs_f64(),
        ..times[0]
    }
}

fn raw(argv: &[OsString], runs: u32) -> SpawnTimes {
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        let output = Command::new(&argv[0]).args(&argv[1..]).output();
        assert!(output.expect("the program starts").status.success());
        times.push(start.elapsed());
    }
    SpawnTimes {
        run: middle(times),
        ..SpawnTimes::default()
    }
}

fn through_warden(isolation: &CommandIsolation, argv: &[OsString], runs: u32) -> SpawnTimes {
    let mut warden = WardenLauncher::this_binary(isolation.clone())
        .start()
        .expect("a warden starts");
    let spec = CommandSpec {
        argv: argv.to_vec(),
        env: Vec::new(),
        directory: "/".into(),
        input: CommandInput::Bytes(Vec::new()),
        limits: CommandLimits {
            wall: Some(Duration::from_secs(1)),
            cpu: Some(Duration::from_secs(1)),
            memory: Some(1 << 28),
            processes: Some(64),
            ..CommandLimits::default()
        },
        max_captured_bytes: 1 << 20,
        network: None,
    };
    let (mut run, mut renew) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let run_handle = warden.new_run();
        let start = Instant::now();
        let outcome = warden
            .run(&run_handle, &spec)
            .expect("the warden runs the program");
        run.push(start.elapsed());
        assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
        let start = Instant::now();
        warden.reset_for_next_task().expect("the warden makes ready");
        warden.wait_until_ready().expect("the warden is ready");
        renew.push(start.elapsed());
    }
    SpawnTimes {
        run: middle(run),
        renew: middle(renew),
        rate: 0.0,
    }
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
