//! How many single adds per second a server makes durable, for a number of concurrent callers.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::HttpClient;
use serde::Serialize;

use crate::report::{FigureTable, rate};
use crate::trivial_task;

/// A figure of the benchmark: durable adds of tasks per second at one number of concurrent callers.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AddThroughput {
    pub(crate) concurrency: usize,
    pub(crate) per_second: f64,
}

impl AddThroughput {
    pub(crate) fn add_to(&self, table: &mut FigureTable) {
        table.add_figure(
            format!("durable adds, {} at a time", self.concurrency),
            rate(self.per_second),
        );
    }
}

pub(crate) async fn measure(
    client: &HttpClient,
    concurrency: usize,
    time: Duration,
) -> Result<AddThroughput> {
    let began = Instant::now();
    let deadline = began + time;
    let callers = (0..concurrency).map(|_| async {
        let mut added = 0_usize;
        while Instant::now() < deadline {
            client.add(&trivial_task(), None).await?;
            added += 1;
        }
        anyhow::Ok(added)
    });
    let added: usize = futures::future::try_join_all(callers).await?.into_iter().sum();
    Ok(AddThroughput {
        concurrency,
        per_second: added as f64 / began.elapsed().as_secs_f64(),
    })
}
