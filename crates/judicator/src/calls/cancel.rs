use model::{Task, TaskId, TaskStatus};
use rpc::CallError;

use crate::Judicator;
use crate::error::call_error;

impl Judicator {
    /// The executor that runs the task learns of it by a hint, or at the latest by the answer to its next report.
    pub(super) async fn on_cancel(&self, id: TaskId) -> Result<Task, CallError> {
        // Needed only for the log line: cancelling a task that is done changes nothing.
        let was_open = match tracing::enabled!(tracing::Level::DEBUG) {
            true => {
                (self.store.get(id).await).is_ok_and(|task| task.is_some_and(|task| !task.status.is_done()))
            }
            false => false,
        };
        let task = self.store.cancel(id).await.map_err(call_error)?;
        let status = task.as_ref().map(|task| task.status);
        tracing::debug!(task = %id, status = status.map(|status| status.as_str()), "cancel requested");
        if was_open && status == Some(TaskStatus::Cancelled) {
            tracing::debug!(task = %id, status = %TaskStatus::Cancelled, "task ended");
        }
        task.ok_or(CallError::NoTask(id))
    }
}
