use model::{AddTask, Task, TaskId};
use rpc::CallError;
use store::NewTaskRecord;

use crate::error::call_error;
use crate::metric_names::ADDS;
use crate::{Judicator, now};

impl Judicator {
    /// The new task has the limits with which the old one is stored, whatever the operator's limits are now.
    pub(super) async fn on_retry(&self, id: TaskId, new_id: TaskId) -> Result<Task, CallError> {
        let Some(task) = self.store.get(id).await.map_err(call_error)? else {
            // Retention may have removed it since an earlier call, whose answer was lost.
            let new = self.store.get(new_id).await.map_err(call_error)?;
            let is_retry = |new: &Task| new.spec.retry_of == Some(id);
            return new.filter(is_retry).ok_or(CallError::NoTask(id));
        };
        if !task.status.is_done() {
            return Err(CallError::NotDone(id));
        }
        self.add_retries(vec![self.retry_record(task, new_id)]).await?;
        self.read_task(new_id).await
    }

    /// A copy of a stored task. Its digest depends only on the stored task, so a repeated retry is recognised.
    pub(super) fn retry_record(&self, task: Task, new_id: TaskId) -> NewTaskRecord {
        let mut add = AddTask::new(new_id, task.spec);
        add.spec.retry_of = Some(task.id);
        let digest = add.digest();
        let mut spec = add.spec;
        // Tasks of earlier versions are stored without it.
        spec.attempts.get_or_insert(self.options.attempts);
        NewTaskRecord {
            id: new_id,
            digest,
            legacy_digest: None,
            spec,
        }
    }

    pub(super) async fn add_retries(&self, tasks: Vec<NewTaskRecord>) -> Result<(), CallError> {
        let added = self.store.add(tasks).await.map_err(call_error)?;
        let new = added.iter().filter(|added| !added.existed).count();
        metrics::counter!(ADDS).increment(new as u64);
        self.history.on_added(now(), new as u64);
        Ok(())
    }
}
