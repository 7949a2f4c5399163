//! Passes changes of a task to the calls that wait for that task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{AttemptId, TaskId};
use rpc::TaskEvent;
use tokio::sync::mpsc;

/// The calls at this judicator that wait for a change of a task, by task.
#[derive(Default)]
pub(crate) struct TaskWatchers {
    tasks: Mutex<HashMap<TaskId, Vec<mpsc::UnboundedSender<TaskUpdate>>>>,
}

/// An update for a call at a judicator that waits for a task: what has changed, or the advice to read it again.
#[derive(Clone, Debug)]
pub(crate) enum TaskUpdate {
    StatusChanged(TaskEvent),
    /// The answer to a report at this judicator has handed the task out. Its status changes when a step begins.
    Assigned(AttemptId),
    /// Events may have been lost, so the call must read the task.
    Reread,
}

/// The subscription of a call at a judicator to the changes of one task. Dropping it unsubscribes.
pub(crate) struct TaskWatcher {
    pub(crate) updates: mpsc::UnboundedReceiver<TaskUpdate>,
    id: TaskId,
    watchers: Arc<TaskWatchers>,
}

impl TaskWatchers {
    /// A caller must subscribe before it reads the task, so that it does not miss a change in between.
    pub(crate) fn watch(self: &Arc<Self>, id: TaskId) -> TaskWatcher {
        // Unbounded, because a task changes only a handful of times.
        let (sender, updates) = mpsc::unbounded_channel();
        self.lock().entry(id).or_default().push(sender);
        TaskWatcher {
            updates,
            id,
            watchers: self.clone(),
        }
    }

    pub(crate) fn on_status_changed(&self, event: &TaskEvent) {
        if let Some(senders) = self.lock().get(&event.id) {
            for sender in senders {
                // Sending fails only for a call that is ending.
                let _ = sender.send(TaskUpdate::StatusChanged(event.clone()));
            }
        }
    }

    pub(crate) fn on_assigned(&self, attempts: impl Iterator<Item = AttemptId>) {
        let tasks = self.lock();
        if tasks.is_empty() {
            return;
        }
        for attempt_id in attempts {
            for sender in tasks.get(&attempt_id.task).into_iter().flatten() {
                let _ = sender.send(TaskUpdate::Assigned(attempt_id));
            }
        }
    }

    pub(crate) fn on_events_lost(&self) {
        for sender in self.lock().values().flatten() {
            let _ = sender.send(TaskUpdate::Reread);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Vec<mpsc::UnboundedSender<TaskUpdate>>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TaskWatcher {
    fn drop(&mut self) {
        self.updates.close();
        let mut tasks = self.watchers.lock();
        if let Some(senders) = tasks.get_mut(&self.id) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                tasks.remove(&self.id);
            }
        }
    }
}
