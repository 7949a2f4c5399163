//! How many tasks a second, from the first add to the last one done.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::{Client, NewTask, Stats};
use model::{Status, TaskId};
use serde::Serialize;

use super::trivial;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Throughput {
    pub(crate) tasks: usize,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
}

impl Throughput {
    pub(super) fn add(&mut self, other: Throughput) {
        self.tasks += other.tasks;
        self.seconds += other.seconds;
        self.per_second = self.tasks as f64 / self.seconds;
    }
}

const BATCH: usize = 250;
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn measure(client: &Client, tasks: usize) -> Result<Throughput> {
    let before = client.stats().await?;
    let ids: Vec<_> = (0..tasks).map(|_| TaskId::generate()).collect();
    let began = Instant::now();
    for batch in ids.chunks(BATCH) {
        let batch = batch.iter().map(|id| NewTask {
            id: Some(*id),
            ..trivial()
        });
        client.add_many(batch.collect()).await?;
    }
    if let Some(last) = ids.last() {
        while !client.get(*last, Some(WAIT)).await?.done {}
    }
    // The last one added is nearly always the last one done; the others are a moment away.
    let after = loop {
        let stats = client.stats().await?;
        if unfinished(&stats) == 0 {
            break stats;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let seconds = began.elapsed().as_secs_f64();
    let succeeded = count(&after, Status::Success) - count(&before, Status::Success);
    ensure!(
        succeeded == tasks as u64,
        "of {tasks} tasks only {succeeded} succeeded; `conclave search` would show the others"
    );
    Ok(Throughput {
        tasks,
        seconds,
        per_second: tasks as f64 / seconds,
    })
}

fn unfinished(stats: &Stats) -> u64 {
    let open = Status::ALL.into_iter().filter(|status| !status.done());
    open.map(|status| count(stats, status)).sum()
}

fn count(stats: &Stats, status: Status) -> u64 {
    stats.counts.get(status.as_str()).copied().unwrap_or(0)
}
