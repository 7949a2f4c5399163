use std::time::Duration;

use model::{Task, TaskId};
use rpc::CallError;
use tokio::time::Instant;

use crate::Judicator;
use crate::error::refusal;
use crate::waiters::News;

const CATCHING_UP: Duration = Duration::from_secs(2);

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
                    Ok(Some(News::Moved(_))) => {
                        if let Some(task) = self.look_for_end(id).await? {
                            return Ok(task);
                        }
                    }
                    Ok(Some(_)) => break,
                    Ok(None) | Err(_) => return self.look(id).await,
                }
            }
        }
    }

    /// The task is said to be done. A replica set's primary that was elected a moment ago may not show yet what its
    /// predecessor has told; that lasts as long as its first own write takes.
    async fn look_for_end(&self, id: TaskId) -> Result<Option<Task>, CallError> {
        let until = Instant::now() + CATCHING_UP;
        loop {
            let task = self.look(id).await?;
            if task.status.done() {
                return Ok(Some(task));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::time::sleep(CATCHING_UP / 40).await;
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
