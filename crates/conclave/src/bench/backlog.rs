//! Queues many tasks that nobody runs.

use anyhow::Result;
use api::Client;
use futures::{StreamExt, TryStreamExt};

use super::trivial;

const BATCH: usize = 1000;
/// While one batch is committed the next is read.
const AT_ONCE: usize = 3;

pub(super) async fn fill(client: &Client, tasks: usize) -> Result<()> {
    let batches = (0..tasks).step_by(BATCH).map(|begin| BATCH.min(tasks - begin));
    futures::stream::iter(batches)
        .map(|size| async move {
            client.add_many(vec![trivial(); size]).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
