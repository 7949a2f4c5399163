//! Logs each task that the platform could not run.

use std::sync::Arc;

use error_causes::with_causes;
use model::{AttemptNumber, TaskId};
use tokio::sync::mpsc;

use crate::Judicator;

/// The number of tasks that wait to be logged. A slow store must neither delay the change events nor fill the memory.
const WAITING: usize = 1024;

/// Sends tasks that ended as `system_error` to the judicator's background task that logs them.
pub(crate) struct SystemErrorLog(mpsc::Sender<TaskId>);

impl SystemErrorLog {
    pub(crate) fn new() -> (SystemErrorLog, mpsc::Receiver<TaskId>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (SystemErrorLog(sender), receiver)
    }

    pub(crate) fn on_system_error(&self, id: TaskId) {
        // With too many tasks at once, the line has no details.
        if self.0.try_send(id).is_err() {
            tracing::info!(task = %id, "task ended as system_error");
        }
    }
}

impl Judicator {
    /// Reads each task, to log its user and the reason.
    pub(crate) async fn log_system_errors(self: Arc<Self>, mut ended: mpsc::Receiver<TaskId>) {
        while let Some(id) = ended.recv().await {
            match self.store.get(id).await {
                Ok(Some(task)) => {
                    let (user, AttemptNumber(attempt)) = (&task.spec.user, task.attempt);
                    // A judged task whose checker failed has a result and no trouble.
                    let judged = || Some(task.result.as_ref()?.reason()?.to_string());
                    let reason = task.trouble.clone().or_else(judged);
                    tracing::info!(task = %id, %user, attempt, reason, "task ended as system_error");
                }
                Ok(None) => tracing::info!(task = %id, "task ended as system_error"),
                Err(error) => {
                    let problem = with_causes(&error);
                    tracing::info!(task = %id, problem, "task ended as system_error; could not read the task");
                }
            }
        }
    }
}
