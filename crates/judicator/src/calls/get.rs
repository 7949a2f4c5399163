use std::time::Duration;

use model::{Task, TaskId};
use rpc::CallError;
use tokio::time::Instant;

use crate::Judicator;
use crate::error::call_error;
use crate::task_watchers::TaskUpdate;

impl Judicator {
    pub(super) async fn on_get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        let Some(wait) = wait else {
            return self.read_task(id).await;
        };
        let deadline = Instant::now() + wait;
        // Subscribed before the first read, so that no change in between is missed.
        let mut watcher = self.watchers.watch(id);
        loop {
            let task = self.read_task(id).await?;
            if task.status.is_done() {
                return Ok(task);
            }
            loop {
                match tokio::time::timeout_at(deadline, watcher.updates.recv()).await {
                    Ok(Some(TaskUpdate::StatusChanged(event))) if !event.status.is_done() => {}
                    Ok(Some(TaskUpdate::Assigned(_))) => {}
                    Ok(Some(TaskUpdate::StatusChanged(_))) => {
                        if let Some(task) = self.read_done_task(id).await? {
                            return Ok(task);
                        }
                    }
                    Ok(Some(TaskUpdate::Reread)) => break,
                    Ok(None) | Err(_) => return self.read_task(id).await,
                }
            }
        }
    }

    /// Reads a task whose last event says that it is done. An ordinary read may lag behind that event for a moment, when
    /// the primary of a replica set has just been elected. Only then the more expensive read is made.
    async fn read_done_task(&self, id: TaskId) -> Result<Option<Task>, CallError> {
        let mut task = self.read_task(id).await?;
        if !task.status.is_done() {
            let newer = self.store.get_after_event(id).await.map_err(call_error)?;
            task = newer.ok_or(CallError::NoTask(id))?;
        }
        Ok(Some(task).filter(|task| task.status.is_done()))
    }

    pub(super) async fn read_task(&self, id: TaskId) -> Result<Task, CallError> {
        let task = self.store.get(id).await.map_err(call_error)?;
        task.ok_or(CallError::NoTask(id))
    }
}
