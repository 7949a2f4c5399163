//! Many tasks that nobody runs, on a server of their own.

use std::path::Path;

use anyhow::Result;
use api::Client;
use futures::{StreamExt, TryStreamExt};

use super::server::Server;
use super::trivial;

pub(super) struct Backlog {
    pub(super) server: Server,
    pub(super) tasks: usize,
}

const BATCH: usize = 1000;
/// While one batch is committed the next is read.
const AT_ONCE: usize = 3;

impl Backlog {
    pub(super) async fn queue(tasks: usize, data: &Path) -> Result<Backlog> {
        let server = Server::start(data, "0").await?;
        fill(&server.client, tasks).await?;
        Ok(Backlog { server, tasks })
    }
}

async fn fill(client: &Client, tasks: usize) -> Result<()> {
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
