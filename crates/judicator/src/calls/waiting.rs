use model::{TaskId, TaskWait, queue_place};
use rpc::CallError;

use crate::Judicator;
use crate::error::call_error;

impl Judicator {
    pub(super) async fn on_waiting(&self, id: TaskId) -> Result<TaskWait, CallError> {
        let task = self.read_task(id).await?;
        let executors = self.store.executors().await.map_err(call_error)?;
        let mut wait = TaskWait::decide(&task, &executors);
        if let Some(place) = queue_place(&task, &executors) {
            let before = self.store.queued_before(place).await.map_err(call_error)?;
            wait.queued_before = Some(before);
        }
        Ok(wait)
    }
}
