use std::collections::HashSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use model::{GroupKey, SortOrder, Task, TaskId, TaskQuery, TaskStatus, UnixTime};
use rpc::{CallError, RetriedTasks};
use sha2::{Digest, Sha256};
use store::NewTaskRecord;
use tokio::time::Instant;
use uuid::Builder;

use crate::Judicator;
use crate::error::call_error;

/// One call ends after this many tasks or this time, whichever comes first. The caller repeats it.
const MAX_TASKS: usize = 10_000;
const MAX_TIME: Duration = Duration::from_secs(5);
/// The tasks that are added together: at most this many, with about this many bytes in their files.
const BATCH_TASKS: usize = 100;
const BATCH_BYTES: u64 = 4 << 20;
/// Tasks that are read at the same time.
const READS_AT_ONCE: usize = 4;

impl Judicator {
    pub(super) async fn on_retry_group(
        &self,
        key: GroupKey,
        until: Option<UnixTime>,
    ) -> Result<RetriedTasks, CallError> {
        if self.store.group(key.clone()).await.map_err(call_error)?.is_none() {
            return Err(CallError::NoGroup(key));
        }
        let until = match until {
            Some(until) => Some(until),
            None => self.after_newest(&key).await?,
        };
        let mut query = TaskQuery {
            user: Some(key.user),
            group: Some(key.group),
            statuses: vec![
                TaskStatus::CompileFailed,
                TaskStatus::RunFailed,
                TaskStatus::SystemError,
                TaskStatus::Cancelled,
            ],
            retried: Some(false),
            until,
            order: SortOrder::Oldest,
            limit: BATCH_TASKS,
            ..TaskQuery::default()
        };
        let begun = Instant::now();
        let mut ids = Vec::new();
        // A new task may fail before this call reaches it. It is not retried in the same call, also if it has the same time
        // as the newest one before.
        let mut own = HashSet::new();
        loop {
            let page = self.store.search(query.clone()).await.map_err(call_error)?;
            let failed = page.tasks.iter().map(|task| task.id);
            let failed: Vec<_> = failed.filter(|id| !own.contains(id)).collect();
            let is_bounded = ids.len() >= MAX_TASKS || begun.elapsed() >= MAX_TIME;
            // A call that has retried nothing yet goes on, because its repetition would begin with the same tasks.
            if !failed.is_empty() && is_bounded && !ids.is_empty() {
                return Ok(RetriedTasks {
                    ids,
                    more: true,
                    until,
                });
            }
            let added = self.retry_each(failed).await?;
            own.extend(added.iter().copied());
            ids.extend(added);
            query.after = page.next;
            if query.after.is_none() {
                return Ok(RetriedTasks {
                    ids,
                    more: false,
                    until,
                });
            }
        }
    }

    /// The first time after the newest task of the group was added. `None` if the group has no task any more.
    async fn after_newest(&self, key: &GroupKey) -> Result<Option<UnixTime>, CallError> {
        let query = TaskQuery {
            user: Some(key.user.clone()),
            group: Some(key.group.clone()),
            order: SortOrder::Newest,
            limit: 1,
            ..TaskQuery::default()
        };
        let page = self.store.search(query).await.map_err(call_error)?;
        let newest = page.tasks.first();
        Ok(newest.map(|task| UnixTime(task.add_time.0 + 1)))
    }

    /// Returns the ids of the new tasks.
    async fn retry_each(&self, failed: Vec<TaskId>) -> Result<Vec<TaskId>, CallError> {
        let reads = failed.into_iter().map(|id| self.store.get(id));
        let mut tasks = stream::iter(reads).buffered(READS_AT_ONCE);
        let (mut ids, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(task) = tasks.try_next().await.map_err(call_error)? {
            // Retention may have removed it meanwhile.
            let Some(task) = task else { continue };
            let new_id = repeated_id(&task);
            let record = self.retry_record(task, new_id);
            bytes += inline_bytes(&record);
            ids.push(new_id);
            batch.push(record);
            if bytes >= BATCH_BYTES {
                self.add_retries(std::mem::take(&mut batch)).await?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            self.add_retries(batch).await?;
        }
        Ok(ids)
    }
}

fn inline_bytes(record: &NewTaskRecord) -> u64 {
    record.spec.contents().map(|content| content.inline_len()).sum()
}

/// The id of the task that repeats this one in a retry of its group. It depends on nothing else, so a call whose answer was
/// lost adds nothing twice.
fn repeated_id(task: &Task) -> TaskId {
    let UnixTime(finished) = task.finish_time.unwrap_or(task.add_time);
    let millis = u64::try_from(finished / 1000).unwrap_or(0);
    let hash: [u8; 32] = Sha256::digest(task.id.0.as_bytes()).into();
    let rest = std::array::from_fn(|index| hash[index]);
    TaskId(Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
}
