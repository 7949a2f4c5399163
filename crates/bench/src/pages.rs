//! How long the list of tasks, the first page of the website, takes on a server with many tasks.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::percentile::percentile;
use crate::raw_http;
use crate::up_process::UpProcess;

/// A figure of the benchmark: percentiles of the time of `GET /`, on a connection of its own each time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PageLatency {
    pub(crate) tasks: usize,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// Rounds that are not counted: they warm the caches.
const WARM_UP_ROUNDS: usize = 5;

pub(crate) async fn measure(server: &UpProcess, tasks: usize, rounds: usize) -> Result<PageLatency> {
    let mut durations = Vec::with_capacity(rounds);
    for round in 0..WARM_UP_ROUNDS + rounds {
        let began = Instant::now();
        raw_http::get_length(&server.http_address, "/").await?;
        let took = began.elapsed();
        if round >= WARM_UP_ROUNDS {
            durations.push(took);
        }
    }
    Ok(PageLatency {
        tasks,
        p50_seconds: percentile(&mut durations, 50).as_secs_f64(),
        p99_seconds: percentile(&mut durations, 99).as_secs_f64(),
    })
}
