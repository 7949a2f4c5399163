//! How many tasks per second a server completes, from the first add to the end of the last task.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::{HttpClient, NewTask, Stats};
use model::{TaskId, TaskStatus};
use serde::Serialize;

use crate::trivial_task;

/// A figure of the benchmark: how many tasks per second a server completes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct TaskThroughput {
    pub(crate) tasks: usize,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
}

impl TaskThroughput {
    pub(crate) fn add(&mut self, other: TaskThroughput) {
        self.tasks += other.tasks;
        self.seconds += other.seconds;
        self.per_second = self.tasks as f64 / self.seconds;
    }
}

const BATCH_SIZE: usize = 250;
const MAX_WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) async fn measure(client: &HttpClient, tasks: usize) -> Result<TaskThroughput> {
    let before = client.stats().await?;
    let ids: Vec<_> = (0..tasks).map(|_| TaskId(uuid::Uuid::now_v7())).collect();
    let began = Instant::now();
    for batch in ids.chunks(BATCH_SIZE) {
        let batch = batch.iter().map(|id| NewTask {
            id: Some(*id),
            ..trivial_task()
        });
        client.add_many(batch.collect()).await?;
    }
    if let Some(last) = ids.last() {
        while !client.get(*last, Some(MAX_WAIT)).await?.done {}
    }
    // The task added last is usually the last to end, so this loop runs only a few times.
    let after = loop {
        let stats = client.stats().await?;
        if unfinished(&stats) == 0 {
            break stats;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    let seconds = began.elapsed().as_secs_f64();
    let succeeded = count(&after, TaskStatus::Success) - count(&before, TaskStatus::Success);
    ensure!(
        succeeded == tasks as u64,
        "only {succeeded} of {tasks} tasks succeeded"
    );
    Ok(TaskThroughput {
        tasks,
        seconds,
        per_second: tasks as f64 / seconds,
    })
}

fn unfinished(stats: &Stats) -> u64 {
    let not_done = TaskStatus::ALL.into_iter().filter(|status| !status.is_done());
    not_done.map(|status| count(stats, status)).sum()
}

fn count(stats: &Stats, status: TaskStatus) -> u64 {
    stats.counts.get(status.as_str()).copied().unwrap_or(0)
}
