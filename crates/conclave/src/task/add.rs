//! Adds a task, and says what is known if no answer came.

use std::time::Duration;

use anyhow::{Error, Result};
use api::{Client, NewTask, Task};
use model::TaskId;

/// Gives the task an id if it has none. With an id, adding twice is adding once, so the client may repeat the call.
pub(crate) async fn add(task: &mut NewTask, wait: Option<Duration>, client: &Client) -> Result<Task> {
    let id = *task.id.get_or_insert_with(TaskId::generate);
    client.add(task, wait).await.map_err(|error| {
        let in_doubt = error.may_have_been_done();
        match in_doubt {
            true => Error::from(error).context(format!(
                "it is not known whether task {id} was added: run the same command again with --id {id}, \
                 which adds it only once"
            )),
            false => error.into(),
        }
    })
}
