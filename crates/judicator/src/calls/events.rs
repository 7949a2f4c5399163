use std::sync::Arc;

use futures::StreamExt;
use model::{Task, TaskId};
use rpc::{CallError, EventStream, TaskEvent};
use store::TaskStore;

use crate::Judicator;
use crate::error::call_error;
use crate::task_watchers::{TaskUpdate, TaskWatcher};

impl Judicator {
    pub(super) async fn on_events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let watcher = self.watchers.watch(id);
        let first = current_event(&self.read_task(id).await?);
        let follower = TaskEventFollower {
            store: self.store.clone(),
            watcher,
            last: first.clone(),
            id,
        };
        let rest = futures::stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            let next = follower.next().await?;
            // The stream ends after an error and after the event that the task is done.
            let continues = next.as_ref().is_ok_and(|event| !event.status.is_done());
            Some((next, continues.then_some(follower)))
        });
        Ok(futures::stream::iter([Ok(first)]).chain(rest).boxed())
    }
}

/// Yields the changes of one task's status to a call that streams them, in order and each once.
struct TaskEventFollower {
    store: Arc<dyn TaskStore>,
    watcher: TaskWatcher,
    last: TaskEvent,
    id: TaskId,
}

impl TaskEventFollower {
    /// The next change of status; `None` once the task is done.
    async fn next(&mut self) -> Option<Result<TaskEvent, CallError>> {
        if self.last.status.is_done() {
            return None;
        }
        loop {
            let event = match self.watcher.updates.recv().await? {
                TaskUpdate::StatusChanged(event) => event,
                TaskUpdate::Assigned(_) => continue,
                TaskUpdate::Reread => match self.store.get(self.id).await {
                    Ok(Some(task)) => current_event(&task),
                    Ok(None) => return Some(Err(CallError::NoTask(self.id))),
                    Err(error) => return Some(Err(call_error(error))),
                },
            };
            // An event from before the first read is skipped: the task cannot change to that status any more.
            if event.status != self.last.status && self.last.status.may_become(event.status) {
                self.last = event.clone();
                return Some(Ok(event));
            }
        }
    }
}

/// The event that describes the task's current status.
fn current_event(task: &Task) -> TaskEvent {
    let time = task
        .finish_time
        .or(task.report_time)
        .or(task.start_time)
        .unwrap_or(task.add_time);
    TaskEvent {
        id: task.id,
        status: task.status,
        executor: task.executor.clone(),
        time,
    }
}
