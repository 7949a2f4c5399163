//! Measures the throughput of the MongoDB store: adds by one and by many callers, and trivial tasks through executors. Then
//! the latency of reading a large group while its tasks finish, and how long cancelling many tasks takes.
//!
//!     cargo run --release -p store --example mongo_rates -- [SECONDS] [EXECUTORS] [TASKS OF THE GROUP]
//!
//! It starts its own replica set of three members, in a temporary folder.

#![allow(clippy::print_stdout, reason = "a report for people")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    dead_code,
    reason = "the replica set is that of the tests"
)]

#[path = "../tests/mongo/replica_set.rs"]
mod replica_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::{AttemptEnd, GroupKey, GroupName, Report};
use store::contract::fake_executor::{FakeExecutor, completed, instructions};
use store::contract::fixtures::{add_task, new_task, success, task_spec};
use store::{MAX_CANCELLED_AT_ONCE, TaskStore};
use tokio::task::JoinSet;

use self::replica_set::{TestAuthentication, TestReplicaSet};

const SLOTS: u32 = 16;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |seconds| seconds.parse())?;
    let executors: usize = args.next().map_or(Ok(2), |count| count.parse())?;
    let group_tasks: usize = args.next().map_or(Ok(50_000), |count| count.parse())?;
    let duration = Duration::from_secs(seconds);
    let replica_set = TestReplicaSet::start(3, TestAuthentication::Disabled).await;
    // Each executor has its own store, as if it reported to its own judicator.
    let mut stores: Vec<Arc<dyn TaskStore>> = vec![];
    for _ in 0..executors {
        stores.push(Arc::new(replica_set.open("rates").await));
    }
    for adders in [1, 64] {
        let rate = measure_adds(&stores[0], adders, duration).await;
        println!("adds by {adders} concurrent callers: {rate:.0}/s");
    }
    let started = Instant::now();
    for _ in 0..20 {
        let batch = (0..1000).map(|_| new_task(task_spec())).collect();
        stores[0].add(batch).await?;
    }
    println!(
        "adds in batches of 1000: {:.0}/s",
        20_000.0 / started.elapsed().as_secs_f64()
    );
    println!(
        "trivial tasks through {executors} executors: {:.0}/s",
        measure_tasks(&stores, "e", duration).await
    );
    let mut idle = FakeExecutor::new(&stores[0], "idle");
    idle.claim(0).await;
    let started = Instant::now();
    let mut reports = 0;
    while started.elapsed() < duration / 2 {
        idle.claim(0).await;
        reports += 1;
    }
    println!(
        "consecutive reports without changes: {:.0}/s",
        reports as f64 / started.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    let totals = stores[0].totals().await?;
    println!(
        "totals of {} tasks in {:.1?}",
        totals.counts.values().sum::<u64>(),
        started.elapsed()
    );
    measure_group(&stores, group_tasks, duration).await
}

/// The group's tasks are added to the queue behind those that the other measurements left.
async fn measure_group(
    stores: &[Arc<dyn TaskStore>],
    tasks: usize,
    duration: Duration,
) -> anyhow::Result<()> {
    let key = GroupKey {
        user: task_spec().user,
        group: GroupName::new("large")?,
    };
    let mut ids = vec![];
    let started = Instant::now();
    while ids.len() < tasks {
        let mut spec = task_spec();
        spec.group = Some(key.group.clone());
        spec.priority = 1;
        let batch: Vec<_> = (0..1000).map(|_| new_task(spec.clone())).collect();
        ids.extend(batch.iter().map(|task| task.id));
        stores[0].add(batch).await?;
    }
    println!(
        "adds to one group in batches of 1000: {:.0}/s",
        ids.len() as f64 / started.elapsed().as_secs_f64()
    );
    let (store, end) = (stores[0].clone(), Instant::now() + duration);
    let reader = {
        let key = key.clone();
        tokio::spawn(async move {
            let mut latencies = vec![];
            while Instant::now() < end {
                let started = Instant::now();
                store.group(key.clone()).await.unwrap();
                latencies.push(started.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            latencies.sort_unstable();
            latencies
        })
    };
    let rate = measure_tasks(stores, "group-", duration).await;
    let latencies = reader.await?;
    println!(
        "a group of {} tasks while {rate:.0}/s of them finish: read in {:.1?} (median), {:.1?} (p99 of {})",
        ids.len(),
        latencies[latencies.len() / 2],
        latencies[latencies.len() * 99 / 100],
        latencies.len(),
    );
    let waiting = &ids[ids.len().saturating_sub(30_000)..];
    let started = Instant::now();
    let mut cancelled = 0;
    for ids in waiting.chunks(MAX_CANCELLED_AT_ONCE) {
        cancelled += stores[0].cancel_many(ids.to_vec()).await?;
    }
    println!("{cancelled} tasks cancelled in {:.1?}", started.elapsed());
    let state = stores[0].group(key).await?;
    println!("the group: {:?}", state.map(|state| state.counts));
    Ok(())
}

async fn measure_adds(store: &Arc<dyn TaskStore>, adders: usize, duration: Duration) -> f64 {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..adders {
        let store = store.clone();
        running.spawn(async move {
            let mut count = 0_u64;
            while started.elapsed() < duration {
                add_task(&*store).await;
                count += 1;
            }
            count
        });
    }
    running.join_all().await.iter().sum::<u64>() as f64 / started.elapsed().as_secs_f64()
}

/// Each report finishes the tasks that the previous one was assigned. `name` begins the names of the executors.
async fn measure_tasks(stores: &[Arc<dyn TaskStore>], name: &str, duration: Duration) -> f64 {
    let finished = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (index, store) in stores.iter().enumerate() {
        let mut executor = FakeExecutor::new(store, &format!("{name}{index}"));
        let finished = finished.clone();
        running.spawn(async move {
            while started.elapsed() < duration {
                let complete = std::mem::take(&mut executor.running)
                    .into_iter()
                    .map(|running| completed(running.attempt_id, AttemptEnd::Result(success())))
                    .collect();
                let report = Report {
                    complete,
                    vacant: SLOTS,
                    ..executor.next_report()
                };
                let answer = instructions(executor.send(report).await);
                finished.fetch_add(answer.delete.len() as u64, Ordering::Relaxed);
            }
        });
    }
    running.join_all().await;
    finished.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}
