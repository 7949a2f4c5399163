//! A line in the log for each task that the platform could not run.

use std::sync::Arc;

use model::{Attempt, TaskId, with_causes};
use tokio::sync::mpsc;

use crate::Judicator;

/// A store that answers slowly must hold up neither the changes nor the memory.
const WAITING: usize = 1024;

pub(crate) struct SystemErrors(mpsc::Sender<TaskId>);

impl SystemErrors {
    pub(crate) fn new() -> (SystemErrors, mpsc::Receiver<TaskId>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (SystemErrors(sender), receiver)
    }

    pub(crate) fn on_system_error(&self, id: TaskId) {
        // With too many at once, a line without the details has to do.
        if self.0.try_send(id).is_err() {
            tracing::info!(task = %id, "task ended as system_error");
        }
    }
}

impl Judicator {
    /// Looks up whose task it was and why it could not be run.
    pub(crate) async fn log_system_errors(self: Arc<Self>, mut ended: mpsc::Receiver<TaskId>) {
        while let Some(id) = ended.recv().await {
            match self.store.get(id).await {
                Ok(Some(task)) => {
                    let (user, Attempt(attempt)) = (&task.spec.user, task.attempt);
                    tracing::info!(task = %id, %user, attempt, reason = task.trouble, "task ended as system_error");
                }
                Ok(None) => tracing::info!(task = %id, "task ended as system_error"),
                Err(error) => {
                    let problem = with_causes(&error);
                    tracing::info!(task = %id, problem, "task ended as system_error; it could not be looked up");
                }
            }
        }
    }
}
