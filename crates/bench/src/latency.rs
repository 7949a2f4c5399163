//! How long one task takes on an idle server: one request adds it, waits for its end and returns its result.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::HttpClient;
use serde::Serialize;

use crate::percentile::percentile;
use crate::report::{FigureTable, millis};
use crate::trivial_task;

/// A figure of the benchmark: percentiles of the time from adding a task to an idle server until its result arrives.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct IdleLatency {
    pub(crate) rounds: usize,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// Rounds that are not counted: they open the connection and warm the caches.
const WARM_UP_ROUNDS: usize = 20;
const MAX_WAIT: Duration = Duration::from_secs(30);

impl IdleLatency {
    pub(crate) fn add_to(&self, table: &mut FigureTable) {
        table.add_figure("one task when idle, p50", millis(self.p50_seconds));
        table.add_figure("one task when idle, p99", millis(self.p99_seconds));
    }
}

pub(crate) async fn measure(client: &HttpClient, rounds: usize) -> Result<IdleLatency> {
    let mut durations = Vec::with_capacity(rounds);
    for round in 0..WARM_UP_ROUNDS + rounds {
        let began = Instant::now();
        let task = client.add(&trivial_task(), Some(MAX_WAIT)).await?;
        let took = began.elapsed();
        ensure!(
            task.done,
            "task {} was not done within {MAX_WAIT:?}; its status is {}",
            task.id,
            task.status
        );
        if round >= WARM_UP_ROUNDS {
            durations.push(took);
        }
    }
    Ok(IdleLatency {
        rounds,
        p50_seconds: percentile(&mut durations, 50).as_secs_f64(),
        p99_seconds: percentile(&mut durations, 99).as_secs_f64(),
    })
}
