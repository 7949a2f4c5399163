//! How many tasks per second a server completes, from the first add to the end of the last task.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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
    measure_task(client, &trivial_task(), tasks).await
}

/// The same for copies of this task.
pub(crate) async fn measure_task(
    client: &HttpClient,
    task: &NewTask,
    tasks: usize,
) -> Result<TaskThroughput> {
    let batch = vec![task.clone(); tasks];
    let began = Instant::now();
    run_all(client, batch).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(TaskThroughput {
        tasks,
        seconds,
        per_second: tasks as f64 / seconds,
    })
}

/// Adds the tasks, waits until all of them have succeeded, and returns the last one.
pub(crate) async fn run_all(client: &HttpClient, tasks: Vec<NewTask>) -> Result<TaskId> {
    let before = client.stats().await?;
    let ids: Vec<_> = tasks.iter().map(|_| TaskId(uuid::Uuid::now_v7())).collect();
    let last = *ids.last().context("there is no task to run")?;
    let tasks: Vec<_> = std::iter::zip(&ids, tasks)
        .map(|(id, task)| NewTask {
            id: Some(*id),
            ..task
        })
        .collect();
    for batch in tasks.chunks(BATCH_SIZE) {
        client.add_many(batch.to_vec()).await?;
    }
    while !client.get(last, Some(MAX_WAIT)).await?.done {}
    // The task added last is usually the last to end, so this loop runs only a few times.
    let after = loop {
        let stats = client.stats().await?;
        if unfinished(&stats) == 0 {
            break stats;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    let succeeded = count(&after, TaskStatus::Success) - count(&before, TaskStatus::Success);
    ensure!(
        succeeded == tasks.len() as u64,
        "only {succeeded} of {} tasks succeeded",
        tasks.len()
    );
    Ok(last)
}

fn unfinished(stats: &Stats) -> u64 {
    let not_done = TaskStatus::ALL.into_iter().filter(|status| !status.is_done());
    not_done.map(|status| count(stats, status)).sum()
}

fn count(stats: &Stats, status: TaskStatus) -> u64 {
    stats.counts.get(status.as_str()).copied().unwrap_or(0)
}
