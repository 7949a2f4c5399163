//! Adds and finishes single tasks for some seconds, as a busy service does. Prints the latency of the calls, which
//! shows the cost of checkpoints, and the largest size of the write-ahead log.
//!
//!     cargo run --release -p store --example steady -- 10 /var/tmp/steady

#![allow(clippy::print_stdout, reason = "a report for people")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, success};
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use tokio::task::JoinSet;

const ADDERS: usize = 8;
const EXECUTORS: usize = 2;
const SLOTS: u32 = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let folder = args.next().map_or_else(|| PathBuf::from("steady"), PathBuf::from);
    let store: Arc<dyn TaskStore> = Arc::new(SqliteStore::open(&folder, SqliteStoreOptions::default())?);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut adds, mut reports) = (JoinSet::new(), JoinSet::new());
    for _ in 0..ADDERS {
        adds.spawn(add_until(end, store.clone()));
    }
    for index in 0..EXECUTORS {
        reports.spawn(run_tasks_until(end, store.clone(), format!("e{index}")));
    }
    let mut largest_log = 0;
    while Instant::now() < end {
        let size = std::fs::metadata(folder.join("tasks.db-wal")).map_or(0, |file| file.len());
        largest_log = largest_log.max(size);
        store.totals().await?;
        tokio::task::yield_now().await;
    }
    print_latencies("add", seconds, adds.join_all().await.concat());
    print_latencies("report", seconds, reports.join_all().await.concat());
    println!("largest write-ahead log: {} MiB", largest_log >> 20);
    Ok(())
}

async fn add_until(end: Instant, store: Arc<dyn TaskStore>) -> Vec<Duration> {
    let mut latencies = vec![];
    while Instant::now() < end {
        let started = Instant::now();
        add_task(&*store).await;
        latencies.push(started.elapsed());
    }
    latencies
}

async fn run_tasks_until(end: Instant, store: Arc<dyn TaskStore>, name: String) -> Vec<Duration> {
    let mut executor = FakeExecutor::new(&store, &name);
    let mut latencies = vec![];
    while Instant::now() < end {
        let started = Instant::now();
        let claimed = executor.claim(SLOTS).await;
        latencies.push(started.elapsed());
        for assigned in claimed {
            let started = Instant::now();
            executor.finish(assigned.attempt_id, success()).await;
            latencies.push(started.elapsed());
        }
    }
    latencies
}

fn print_latencies(what: &str, seconds: u64, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: {}/s, median {:.2?}, 99% {:.2?}, 99.9% {:.2?}, maximum {:.2?}",
        latencies.len() as u64 / seconds,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
