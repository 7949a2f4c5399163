//! A server with many queued tasks and no executor to run them.

use std::path::Path;

use anyhow::Result;
use api::HttpClient;
use futures::{StreamExt, TryStreamExt};

use crate::trivial_task;
use crate::up_process::UpProcess;

/// A `conclave up` without an executor that the benchmark has started, and the number of tasks queued on it.
pub(crate) struct Backlog {
    pub(crate) server: UpProcess,
    pub(crate) tasks: usize,
}

const BATCH_SIZE: usize = 1000;
/// More than one, so that the server reads the next batch while it commits the current one.
const CONCURRENT_BATCHES: usize = 3;

impl Backlog {
    pub(crate) async fn queue(tasks: usize, data: &Path) -> Result<Backlog> {
        let server = UpProcess::start(data, "0").await?;
        add_tasks(&server.client, tasks).await?;
        Ok(Backlog { server, tasks })
    }
}

async fn add_tasks(client: &HttpClient, tasks: usize) -> Result<()> {
    let batches = (0..tasks)
        .step_by(BATCH_SIZE)
        .map(|begin| BATCH_SIZE.min(tasks - begin));
    futures::stream::iter(batches)
        .map(|size| async move {
            client.add_many(vec![trivial_task(); size]).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(CONCURRENT_BATCHES)
        .try_collect()
        .await
}
