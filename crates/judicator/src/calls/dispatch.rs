use std::sync::Arc;

use model::Status;
use rpc::Event;
use store::Change;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::Judicator;
use crate::measure::FINISHES;

impl Judicator {
    /// Passes on what the store says has changed: to executors as hints, to callers as news.
    pub(crate) async fn dispatch(self: Arc<Self>, mut changes: broadcast::Receiver<Change>) {
        loop {
            match changes.recv().await {
                Ok(change) => self.on_change(change),
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "changes were missed: everyone looks for himself");
                    self.on_change(Change::Lost);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn on_change(&self, change: Change) {
        match change {
            Change::Waiting(tasks) => self.hints.on_work(tasks),
            Change::Withdrawn(executor) => self.hints.on_withdrawn(&executor),
            Change::Lost => {
                self.hints.on_lost_history();
                self.waiters.on_lost_history();
            }
            Change::Moved {
                id,
                status,
                executor,
                time,
            } => {
                if status.done() {
                    self.pace.on_done();
                    // In a cluster every judicator sees the change; the leader's log is enough.
                    if status == Status::SystemError && self.leads() {
                        self.system_errors.on_system_error(id);
                    }
                    metrics::counter!(FINISHES, "status" => status.as_str()).increment(1);
                }
                self.waiters.on_moved(&Event {
                    id,
                    status,
                    // Nobody holds a task that is done: whoever follows it sees what a look at it would show.
                    executor: executor.filter(|_| !status.done()),
                    time,
                });
            }
        }
    }
}
