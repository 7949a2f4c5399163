use model::{Status, Task, TaskId};
use rpc::CallError;

use crate::Judicator;
use crate::error::refusal;

impl Judicator {
    /// Whoever runs it learns of it by a hint, and at the latest by the answer to its next report.
    pub(super) async fn on_cancel(&self, id: TaskId) -> Result<Task, CallError> {
        // Looked up only where it is logged: a task that is done stays as it is.
        let was_open = match tracing::enabled!(tracing::Level::DEBUG) {
            true => (self.store.get(id).await).is_ok_and(|task| task.is_some_and(|task| !task.status.done())),
            false => false,
        };
        let task = self.store.cancel(id).await.map_err(refusal)?;
        let status = task.as_ref().map(|task| task.status);
        tracing::debug!(task = %id, status = status.map(|status| status.as_str()), "cancel");
        if was_open && status == Some(Status::Cancelled) {
            tracing::debug!(task = %id, status = %Status::Cancelled, "task ended");
        }
        task.ok_or(CallError::NoTask(id))
    }
}
