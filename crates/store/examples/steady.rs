//! Adds and finishes single tasks for some seconds, as a busy service does, and says how long its callers
//! waited and how large the log grew: what checkpoints cost those who wait.
//!
//!     cargo run --release -p store --example steady -- 10 /var/tmp/steady

#![allow(clippy::print_stdout, reason = "a report for people")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::TaskStore;
use store::contract::sample::{add_one, success};
use store::contract::worker::Worker;
use store::sqlite::{Options, SqliteStore};
use tokio::task::JoinSet;

const ADDERS: usize = 8;
const WORKERS: usize = 2;
const SLOTS: u32 = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let folder = args.next().map_or_else(|| PathBuf::from("steady"), PathBuf::from);
    let store: Arc<dyn TaskStore> = Arc::new(SqliteStore::open(&folder, Options::default())?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut adds, mut reports) = (JoinSet::new(), JoinSet::new());
    for _ in 0..ADDERS {
        adds.spawn(add_until(end, store.clone()));
    }
    for index in 0..WORKERS {
        reports.spawn(work_until(end, store.clone(), format!("e{index}")));
    }
    let mut log = 0;
    while Instant::now() < end {
        let size = std::fs::metadata(folder.join("tasks.db-wal")).map_or(0, |file| file.len());
        log = log.max(size);
        store.totals().await?;
        tokio::task::yield_now().await;
    }
    describe("add", seconds, adds.join_all().await.concat());
    describe("report", seconds, reports.join_all().await.concat());
    println!("log at most {} MiB", log >> 20);
    Ok(())
}

async fn add_until(end: Instant, store: Arc<dyn TaskStore>) -> Vec<Duration> {
    let mut waits = vec![];
    while Instant::now() < end {
        let began = Instant::now();
        add_one(&*store).await;
        waits.push(began.elapsed());
    }
    waits
}

async fn work_until(end: Instant, store: Arc<dyn TaskStore>, name: String) -> Vec<Duration> {
    let mut worker = Worker::new(&store, &name);
    let mut waits = vec![];
    while Instant::now() < end {
        let began = Instant::now();
        let claimed = worker.claim(SLOTS).await;
        waits.push(began.elapsed());
        for assigned in claimed {
            let began = Instant::now();
            worker.finish(assigned.handout, success()).await;
            waits.push(began.elapsed());
        }
    }
    waits
}

fn describe(what: &str, seconds: u64, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: {}/s, median {:.2?}, 99% {:.2?}, 99.9% {:.2?}, longest {:.2?}",
        waits.len() as u64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
