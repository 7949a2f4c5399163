use model::{Task, TaskId};
use rpc::CallError;

use crate::Judicator;
use crate::error::refusal;

impl Judicator {
    /// Whoever runs it learns of it by a hint, and at the latest by the answer to its next report.
    pub(super) async fn on_cancel(&self, id: TaskId) -> Result<Task, CallError> {
        let task = self.store.cancel(id).await.map_err(refusal)?;
        tracing::debug!(task = %id, status = task.as_ref().map(|task| task.status.as_str()), "cancel");
        task.ok_or(CallError::NoTask(id))
    }
}
