//! How many single adds a second are made durable, by so many callers at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::Client;
use serde::Serialize;

use super::trivial;

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Adds {
    pub(crate) concurrency: usize,
    pub(crate) per_second: f64,
}

pub(super) async fn measure(client: &Client, concurrency: usize, time: Duration) -> Result<Adds> {
    let began = Instant::now();
    let until = began + time;
    let callers = (0..concurrency).map(|_| async {
        let mut added = 0_usize;
        while Instant::now() < until {
            client.add(&trivial(), None).await?;
            added += 1;
        }
        anyhow::Ok(added)
    });
    let added: usize = futures::future::try_join_all(callers).await?.into_iter().sum();
    Ok(Adds {
        concurrency,
        per_second: added as f64 / began.elapsed().as_secs_f64(),
    })
}
