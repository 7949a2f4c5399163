use std::time::Duration;

use model::{Task, TaskId};
use rpc::CallError;
use tokio::time::Instant;

use crate::Judicator;
use crate::error::refusal;
use crate::waiters::News;

impl Judicator {
    pub(super) async fn on_get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        let Some(wait) = wait else {
            return self.look(id).await;
        };
        let deadline = Instant::now() + wait;
        // Before the first look: a change between that and the wait would be missed.
        let mut waiter = self.waiters.wait_for(id);
        loop {
            let task = self.look(id).await?;
            if task.status.done() {
                return Ok(task);
            }
            loop {
                match tokio::time::timeout_at(deadline, waiter.news.recv()).await {
                    Ok(Some(News::Moved(event))) if !event.status.done() => {}
                    Ok(Some(_)) => break,
                    Ok(None) | Err(_) => return self.look(id).await,
                }
            }
        }
    }

    pub(super) async fn look(&self, id: TaskId) -> Result<Task, CallError> {
        self.store
            .get(id)
            .await
            .map_err(refusal)?
            .ok_or(CallError::NoTask(id))
    }
}
