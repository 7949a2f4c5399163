//! How long one task takes when nothing else is going on: added, run and answered in one exchange.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::Client;
use serde::Serialize;

use super::spread::percentile;
use super::trivial;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) rounds: usize,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// The first ones open the connection and warm the caches.
const WARM_UP: usize = 20;
const WAIT: Duration = Duration::from_secs(30);

pub(super) async fn measure(client: &Client, rounds: usize) -> Result<Latency> {
    let mut spans = Vec::with_capacity(rounds);
    for round in 0..WARM_UP + rounds {
        let began = Instant::now();
        let task = client.add(&trivial(), Some(WAIT)).await?;
        let took = began.elapsed();
        ensure!(
            task.done,
            "task {} was not done within {WAIT:?}: it is {}",
            task.id,
            task.status
        );
        if round >= WARM_UP {
            spans.push(took);
        }
    }
    Ok(Latency {
        rounds,
        p50_seconds: percentile(&mut spans, 50).as_secs_f64(),
        p99_seconds: percentile(&mut spans, 99).as_secs_f64(),
    })
}
