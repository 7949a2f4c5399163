//! How fast a replica set is: additions by one and by many at once, and trivial tasks through two executors.
//!
//!     cargo run --release -p store --example mongo_rates -- [SECONDS] [EXECUTORS]
//!
//! It starts a set of three members of its own, in the folder for temporary files.

#![allow(clippy::print_stdout, reason = "a report for people")]
#![allow(clippy::unwrap_used, dead_code, reason = "the set is the tests' own")]

#[path = "../tests/mongo/set.rs"]
mod set;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::{Complete, End, Report};
use store::TaskStore;
use store::contract::sample::{add_one, new, spec, success};
use store::contract::worker::{Worker, done};
use tokio::task::JoinSet;

use self::set::{Guard, Set};

const SLOTS: u32 = 16;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |seconds| seconds.parse())?;
    let executors: usize = args.next().map_or(Ok(2), |count| count.parse())?;
    let span = Duration::from_secs(seconds);
    let set = Set::start(3, Guard::Open).await;
    // One for each executor, as if each reported to a judicator of its own.
    let mut stores: Vec<Arc<dyn TaskStore>> = vec![];
    for _ in 0..executors {
        stores.push(Arc::new(set.open("rates").await));
    }
    for adders in [1, 64] {
        let rate = adds(&stores[0], adders, span).await;
        println!("adds by {adders} at once: {rate:.0}/s");
    }
    let begun = Instant::now();
    for _ in 0..20 {
        let batch = (0..1000).map(|_| new(spec())).collect();
        stores[0].add(batch).await?;
    }
    println!(
        "adds by thousands: {:.0}/s",
        20_000.0 / begun.elapsed().as_secs_f64()
    );
    println!(
        "trivial tasks through {executors} executors: {:.0}/s",
        tasks(&stores, span).await
    );
    let mut idle = Worker::new(&stores[0], "idle");
    idle.claim(0).await;
    let begun = Instant::now();
    let mut reports = 0;
    while begun.elapsed() < span / 2 {
        idle.claim(0).await;
        reports += 1;
    }
    println!(
        "reports with nothing new, one after the other: {:.0}/s",
        reports as f64 / begun.elapsed().as_secs_f64()
    );
    let begun = Instant::now();
    let totals = stores[0].totals().await?;
    println!(
        "totals of {} tasks in {:.1?}",
        totals.counts.values().sum::<u64>(),
        begun.elapsed()
    );
    Ok(())
}

async fn adds(store: &Arc<dyn TaskStore>, adders: usize, span: Duration) -> f64 {
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..adders {
        let store = store.clone();
        running.spawn(async move {
            let mut count = 0_u64;
            while begun.elapsed() < span {
                add_one(&*store).await;
                count += 1;
            }
            count
        });
    }
    running.join_all().await.iter().sum::<u64>() as f64 / begun.elapsed().as_secs_f64()
}

/// Each report finishes what the one before it was given.
async fn tasks(stores: &[Arc<dyn TaskStore>], span: Duration) -> f64 {
    let finished = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for (index, store) in stores.iter().enumerate() {
        let mut worker = Worker::new(store, &format!("e{index}"));
        let finished = finished.clone();
        running.spawn(async move {
            while begun.elapsed() < span {
                let complete = std::mem::take(&mut worker.running)
                    .into_iter()
                    .map(|running| Complete {
                        handout: running.handout,
                        end: End::Result(success()),
                    })
                    .collect();
                let report = Report {
                    complete,
                    vacant: SLOTS,
                    ..worker.next_report()
                };
                let answer = done(worker.deliver(report).await);
                finished.fetch_add(answer.delete.len() as u64, Ordering::Relaxed);
            }
        });
    }
    running.join_all().await;
    finished.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64()
}
