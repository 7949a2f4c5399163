//! Adds a task, and does not mind if the answer is lost.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::{Client, ClientError, NewTask, Task};
use model::TaskId;

/// How long a server may take to come back: a restart takes a second or two.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);

/// Gives the task an id if it has none, so that it can be added again when the connection broke before the
/// answer came: adding twice is adding once.
pub(crate) async fn add(task: &mut NewTask, wait: Option<Duration>, client: &Client) -> Result<Task> {
    task.id.get_or_insert_with(TaskId::generate);
    let began = Instant::now();
    let mut reached = false;
    loop {
        match client.add(task, wait).await {
            // Nobody there from the start: likelier a wrong address than a restart.
            Err(error @ ClientError::Connect { .. }) if !reached => return Err(error.into()),
            Err(error) if error.is_transient() && began.elapsed() < PATIENCE => reached = true,
            answer => return Ok(answer?),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
