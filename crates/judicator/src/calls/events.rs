use std::sync::Arc;

use futures::StreamExt;
use model::{AttemptNumber, Task, TaskId, TaskStatus};
use rpc::{CallError, EventStream, TaskEvent};
use store::{StoreError, TaskStore};

use crate::Judicator;
use crate::error::call_error;
use crate::task_watchers::{TaskUpdate, TaskWatcher};

impl Judicator {
    pub(super) async fn on_events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let watcher = self.watchers.watch(id);
        let task = self.read_task(id).await?;
        let first = current_event(&task);
        let follower = TaskEventFollower {
            store: self.store.clone(),
            watcher,
            last: first.clone(),
            attempt: task.attempt,
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
    /// The newest attempt that was read.
    attempt: AttemptNumber,
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
                TaskUpdate::Reread => {
                    let task = self.store.get(self.id).await;
                    match self.on_read(task) {
                        Ok(task) => current_event(&task),
                        Err(error) => return Some(Err(error)),
                    }
                }
            };
            // An event from before the first read is skipped: the task cannot change to that status any more.
            if event.status == self.last.status || !self.last.status.may_become(event.status) {
                continue;
            }
            if event.status == TaskStatus::Retrying {
                match self.has_left_attempt().await {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => return Some(Err(error)),
                }
            }
            self.last = event.clone();
            return Some(Ok(event));
        }
    }

    /// Whether the attempt that was read last has ended without a result. A running task may always become one that is retried,
    /// so an event from before the first read looks like a new one.
    async fn has_left_attempt(&mut self) -> Result<bool, CallError> {
        let before = self.attempt;
        let task = self.store.get_after_event(self.id).await;
        let task = self.on_read(task)?;
        Ok(task.status == TaskStatus::Retrying || task.attempt > before)
    }

    fn on_read(&mut self, task: Result<Option<Task>, StoreError>) -> Result<Task, CallError> {
        let task = task.map_err(call_error)?.ok_or(CallError::NoTask(self.id))?;
        self.attempt = task.attempt;
        Ok(task)
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
