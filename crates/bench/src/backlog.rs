//! A server with many queued tasks and no executor to run them.

use std::path::Path;

use anyhow::Result;
use api::{HttpClient, NewTask};
use futures::{StreamExt, TryStreamExt};
use model::RootName;

use crate::trivial_task;
use crate::up_process::UpProcess;

/// A `conclave up` without an executor that the benchmark has started, and the number of tasks queued on it.
pub(crate) struct Backlog {
    pub(crate) server: UpProcess,
    pub(crate) tasks: usize,
    /// Further tasks that wait for a root that no executor has.
    pub(crate) unclaimable: usize,
}

const BATCH_SIZE: usize = 1000;
/// More than one, so that the server reads the next batch while it commits the current one.
const CONCURRENT_BATCHES: usize = 3;

impl Backlog {
    pub(crate) async fn queue(tasks: usize, data: &Path) -> Result<Backlog> {
        let server = UpProcess::start(data, "0").await?;
        add_tasks(&server.client, trivial_task(), tasks).await?;
        Ok(Backlog {
            server,
            tasks,
            unclaimable: 0,
        })
    }

    pub(crate) async fn add_unclaimable(&mut self, tasks: usize) -> Result<()> {
        let waiting = NewTask {
            root: Some(RootName::new("of-no-executor")?),
            wait_for_executor: true,
            // They come first, so a claim that looked at them would look at all of them.
            priority: 1,
            ..trivial_task()
        };
        add_tasks(&self.server.client, waiting, tasks).await?;
        self.unclaimable += tasks;
        Ok(())
    }
}

async fn add_tasks(client: &HttpClient, task: NewTask, tasks: usize) -> Result<()> {
    let batches = (0..tasks)
        .step_by(BATCH_SIZE)
        .map(|begin| BATCH_SIZE.min(tasks - begin));
    futures::stream::iter(batches)
        .map(|size| {
            let batch = vec![task.clone(); size];
            async move {
                client.add_many(batch).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(CONCURRENT_BATCHES)
        .try_collect()
        .await
}
