//! From paths and flags to a task that can be added.

mod batch_key;
mod blobs;
mod build;
mod collect;
mod content;
mod judging;
mod program;

use std::time::Duration;

use anyhow::{Error, Result};
use api::{HttpClient, NewTask, Task};
use model::TaskId;

pub(crate) use batch_key::BatchKey;
pub(crate) use build::build;
pub(crate) use content::{InlineBudget, content_of_file};
pub(crate) use program::LocalProgram;

/// Adds a task. Gives it an id if it has none, so that the client can repeat the request without adding the task twice.
pub(crate) async fn add(task: &mut NewTask, wait: Option<Duration>, client: &HttpClient) -> Result<Task> {
    let id = *task.id.get_or_insert_with(new_task_id);
    client.add(task, wait).await.map_err(|error| {
        let in_doubt = error.may_have_taken_effect();
        match in_doubt {
            true => Error::from(error).context(format!(
                "it is unknown whether task {id} was added: run the same command again with --id {id}, \
                 which adds it only once"
            )),
            false => error.into(),
        }
    })
}

/// A new id: a UUIDv7, so that ids sort by the time at which they were made.
pub(crate) fn new_task_id() -> TaskId {
    TaskId(uuid::Uuid::now_v7())
}
