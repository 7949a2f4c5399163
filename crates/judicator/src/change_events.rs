//! Passes the store's change events on: to executors as hints, and to calls that wait for a task, a group or any change. Executors
//! receive tasks in the answers to their reports, not from here.

use std::sync::Arc;

use model::TaskStatus;
use rpc::TaskEvent;
use store::ChangeEvent;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::Judicator;
use crate::metric_names::FINISHES;

impl Judicator {
    /// Turns change events into hints for executors and updates for waiting calls.
    pub(crate) async fn forward_change_events(
        self: Arc<Self>,
        mut changes: broadcast::Receiver<ChangeEvent>,
    ) {
        loop {
            match changes.recv().await {
                Ok(change) => self.on_change(change),
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "change events lagged; re-reading state");
                    self.on_change(ChangeEvent::EventsLost);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn on_change(&self, change: ChangeEvent) {
        self.change_ticks.on_change();
        match change {
            ChangeEvent::TasksQueued { requires, count } => self.hints.on_tasks_queued(&requires, count),
            ChangeEvent::AttemptRevoked(executor) => self.hints.on_attempt_revoked(&executor),
            ChangeEvent::DrainChanged(executor) => self.hints.on_drain_changed(&executor),
            ChangeEvent::EventsLost => {
                self.hints.on_events_lost();
                self.watchers.on_events_lost();
                self.group_watchers.on_events_lost();
            }
            ChangeEvent::GroupChanged(key) => self.group_watchers.on_changed(&key),
            ChangeEvent::StatusChanged {
                id,
                status,
                executor,
                time,
            } => {
                if status.is_done() {
                    self.throughput.on_done();
                    // In a cluster every judicator sees the event; one log line, from the leader, is enough.
                    if status == TaskStatus::SystemError && self.leads() {
                        self.system_error_log.on_system_error(id);
                    }
                    metrics::counter!(FINISHES, "status" => status.as_str()).increment(1);
                }
                self.watchers.on_status_changed(&TaskEvent {
                    id,
                    status,
                    // No executor holds a task that is done. The event shows the same as a read of the task.
                    executor: executor.filter(|_| !status.is_done()),
                    time,
                });
            }
        }
    }
}
