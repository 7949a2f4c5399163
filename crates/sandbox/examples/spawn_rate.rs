//! How much of the raw rate of starting processes is left when wardens start them, with cells and without.
//!
//!     cargo run --release -p sandbox --example spawn_rate
#![allow(clippy::print_stdout)]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use sandbox::cgroup::Place;
use sandbox::{CellSettings, Input, Isolation, Launcher, Limits, Part, Spec};

const RUNS: u32 = 1000;
/// The machine is shared: the best of some rounds is what it can do.
const ROUNDS: u32 = 3;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("warden") {
        return sandbox::warden::run();
    }
    let place = Place::prepare("conclave-spawn-rate", None).expect("control groups");
    let cell = Isolation::Cell(Box::new(CellSettings {
        root: Part::of_host().expect("the host's programs can be listed"),
        user: 1_900_000_000,
        subordinates: None,
        most_open_files: None,
        group: Some((place.clone(), "slot".into())),
        usual: sandbox::Usual::default(),
        space: 64 << 20,
        files: 10_000,
        networks: Vec::new(),
    }));
    let none = Isolation::None;
    for threads in [1, 2] {
        let mut best = [Times::default(); 3];
        for _ in 0..ROUNDS {
            best[0].keep(on_threads(threads, |_| raw(RUNS / threads)));
            for (index, isolation) in [(1, &none), (2, &cell)] {
                let work = |thread| through_warden(&isolation.of_warden(thread), RUNS / threads);
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
    place.remove().expect("nothing is left in the control groups");
    ExitCode::SUCCESS
}

#[derive(Clone, Copy, Default)]
struct Times {
    rate: f64,
    run: Duration,
    renew: Duration,
}

impl Times {
    fn keep(&mut self, other: Times) {
        if other.rate > self.rate {
            *self = other;
        }
    }
}

/// When this many threads share the work; the middle times are those of the first.
fn on_threads(threads: u32, work: impl Fn(u32) -> Times + Sync) -> Times {
    let start = Instant::now();
    let work = &work;
    let times: Vec<Times> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread fails"))
            .collect()
    });
    Times {
        rate: f64::from(RUNS) / start.elapsed().as_secs_f64(),
        ..times[0]
    }
}

fn raw(runs: u32) -> Times {
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        let status = Command::new("/bin/true").status().expect("/bin/true starts");
        assert!(status.success());
        times.push(start.elapsed());
    }
    Times {
        run: middle(times),
        ..Times::default()
    }
}

fn through_warden(isolation: &Isolation, runs: u32) -> Times {
    let mut warden = Launcher::this_binary(isolation.clone())
        .start()
        .expect("a warden starts");
    let spec = Spec {
        argv: vec!["/bin/true".into()],
        env: Vec::new(),
        directory: "/".into(),
        input: Input::Bytes(Vec::new()),
        limits: Limits {
            wall: Some(Duration::from_secs(1)),
            cpu: Some(Duration::from_secs(1)),
            memory: Some(1 << 28),
            processes: Some(64),
            ..Limits::default()
        },
        keep: 1 << 20,
        network: None,
    };
    let (mut run, mut renew) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let ticket = warden.ticket();
        let start = Instant::now();
        let outcome = warden.run(&ticket, &spec).expect("the warden runs /bin/true");
        run.push(start.elapsed());
        assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
        let start = Instant::now();
        warden.renew().expect("the warden makes ready");
        warden.wait_until_ready().expect("the warden is ready");
        renew.push(start.elapsed());
    }
    Times {
        run: middle(run),
        renew: middle(renew),
        rate: 0.0,
    }
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
