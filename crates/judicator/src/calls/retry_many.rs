use std::collections::HashSet;
use std::time::Duration;

use futures::{StreamExt, stream};
use model::{GroupKey, SearchCursor, SortOrder, Task, TaskId, TaskQuery, TaskStatus, UnixTime};
use rpc::{CallError, RetriedTasks, RetryProgress};
use sha2::{Digest, Sha256};
use store::NewTaskRecord;
use tokio::time::Instant;
use uuid::Builder;

use crate::Judicator;
use crate::error::call_error;

/// One call ends after this many tasks or this time, whichever comes first, and with the page that it is at. The caller
/// continues with another call.
const MAX_TASKS: usize = 10_000;
const MAX_TIME: Duration = Duration::from_secs(2);
/// The tasks that are added together: at most this many, with about this many bytes in their files.
const BATCH_TASKS: usize = 100;
const BATCH_BYTES: u64 = 4 << 20;
/// Tasks that are read at the same time.
const READS_AT_ONCE: usize = 4;

/// The statuses of tasks that a retry of many tasks repeats.
const FAILED: [TaskStatus; 4] = [
    TaskStatus::CompileFailed,
    TaskStatus::RunFailed,
    TaskStatus::SystemError,
    TaskStatus::Cancelled,
];

impl Judicator {
    pub(super) async fn on_retry_group(
        &self,
        key: GroupKey,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        if self.store.group(key.clone()).await.map_err(call_error)?.is_none() {
            return Err(CallError::NoGroup(key));
        }
        let query = TaskQuery {
            user: Some(key.user),
            group: Some(key.group),
            ..TaskQuery::default()
        };
        self.retry_many(query, continues).await
    }

    pub(super) async fn on_retry_matching(
        &self,
        query: TaskQuery,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        query.check()?;
        query.require_filter()?;
        self.retry_many(self.with_language_name(query), continues).await
    }

    /// Retries the tasks that match the filters, are done without success, and were not retried yet.
    async fn retry_many(
        &self,
        query: TaskQuery,
        continues: Option<RetryProgress>,
    ) -> Result<RetriedTasks, CallError> {
        let mut ids = Vec::new();
        let statuses = failed_statuses(&query.statuses);
        let (until, after) = match continues {
            Some(RetryProgress { until, after }) => (Some(until), after),
            None => (self.after_newest(&query).await?, None),
        };
        let (Some(until), false, true) = (until, statuses.is_empty(), query.retried != Some(true)) else {
            return Ok(RetriedTasks { ids, next: None });
        };
        let mut query = TaskQuery {
            statuses,
            retried: Some(false),
            until: Some(query.until.map_or(until, |asked| asked.min(until))),
            order: SortOrder::Oldest,
            limit: BATCH_TASKS,
            after: None,
            ..query
        };
        query.after = after.map(|cursor| query.cursor_at(cursor.add_time, cursor.id));
        let begun = Instant::now();
        loop {
            let after = match self.retry_page(&query, &mut ids).await {
                Ok(next) => next,
                // The call that continues here returns the error. This one has ids to return, which are known to nobody else.
                Err(error) if !ids.is_empty() => {
                    tracing::debug!(%error, "could not retry all matching tasks");
                    let after = query.after;
                    let next = Some(RetryProgress { until, after });
                    return Ok(RetriedTasks { ids, next });
                }
                Err(error) => return Err(error),
            };
            query.after = after;
            let is_long = ids.len() >= MAX_TASKS || begun.elapsed() >= MAX_TIME;
            if after.is_none() || is_long {
                let next = after.map(|cursor| RetryProgress {
                    until,
                    after: Some(cursor),
                });
                return Ok(RetriedTasks { ids, next });
            }
        }
    }

    /// Retries one page of tasks and appends the new ids. Returns where the next page begins.
    async fn retry_page(
        &self,
        query: &TaskQuery,
        ids: &mut Vec<TaskId>,
    ) -> Result<Option<SearchCursor>, CallError> {
        let page = self.store.search(query.clone()).await.map_err(call_error)?;
        // A new task may fail before this call reaches it. It is not retried in the same call, also if it has the same time
        // as the newest one before.
        let own: HashSet<_> = ids.iter().copied().collect();
        let failed = page.tasks.iter().map(|task| task.id);
        let failed = failed.filter(|id| !own.contains(id)).collect();
        self.retry_each(failed, ids).await?;
        Ok(page.next)
    }

    /// The first time after the newest task of the same user and group was added. `None` if there is none.
    async fn after_newest(&self, query: &TaskQuery) -> Result<Option<UnixTime>, CallError> {
        let query = TaskQuery {
            user: query.user.clone(),
            group: query.group.clone(),
            order: SortOrder::Newest,
            limit: 1,
            ..TaskQuery::default()
        };
        let page = self.store.search(query).await.map_err(call_error)?;
        let newest = page.tasks.first();
        Ok(newest.map(|task| UnixTime(task.add_time.0 + 1)))
    }

    /// Appends the ids of the new tasks, as soon as these are added. Skips tasks that cannot be retried.
    async fn retry_each(&self, failed: Vec<TaskId>, ids: &mut Vec<TaskId>) -> Result<(), CallError> {
        let read = |id| async move { (id, self.store.get(id).await) };
        let mut tasks = stream::iter(failed.into_iter().map(read)).buffered(READS_AT_ONCE);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some((id, task)) = tasks.next().await {
            let task = match task.map_err(call_error) {
                Ok(Some(task)) => task,
                // Retention may have removed it meanwhile.
                Ok(None) => continue,
                Err(error) => {
                    skip_if_damaged(id, error)?;
                    continue;
                }
            };
            let new_id = repeated_id(&task);
            let record = self.retry_record(task, new_id);
            bytes += inline_bytes(&record);
            batch.push(record);
            if bytes >= BATCH_BYTES {
                self.add_retry_batch(std::mem::take(&mut batch), ids).await?;
                bytes = 0;
            }
        }
        self.add_retry_batch(batch, ids).await
    }

    async fn add_retry_batch(
        &self,
        batch: Vec<NewTaskRecord>,
        ids: &mut Vec<TaskId>,
    ) -> Result<(), CallError> {
        if batch.is_empty() {
            return Ok(());
        }
        let new_ids: Vec<_> = batch.iter().map(|record| record.id).collect();
        match self.add_retries(batch.clone()).await {
            Ok(()) => {
                ids.extend(new_ids);
                return Ok(());
            }
            Err(error) if !is_about_one_task(&error) => return Err(error),
            Err(_) => {}
        }
        // The store adds all or none, so each is added by itself to find those that it refuses.
        for record in batch {
            let (new_id, failed) = (record.id, record.spec.retry_of.unwrap_or(record.id));
            match self.add_retries(vec![record]).await {
                Ok(()) => ids.push(new_id),
                Err(error) => skip_if_damaged(failed, error)?,
            }
        }
        Ok(())
    }
}

/// The statuses among these of tasks that can be retried as failed; no status stands for all.
fn failed_statuses(statuses: &[TaskStatus]) -> Vec<TaskStatus> {
    let is_meant = |status: &TaskStatus| statuses.is_empty() || statuses.contains(status);
    FAILED.into_iter().filter(is_meant).collect()
}

/// Logs that the task is not retried, if the error is about this task only. Otherwise returns the error.
fn skip_if_damaged(task: TaskId, error: CallError) -> Result<(), CallError> {
    if !is_about_one_task(&error) {
        return Err(error);
    }
    tracing::warn!(%task, %error, "could not retry one of many tasks; skipping it");
    Ok(())
}

/// Whether the task itself cannot be read, or its repetition cannot be added. Others can.
fn is_about_one_task(error: &CallError) -> bool {
    match error {
        CallError::NoTask(_)
        | CallError::NotDone(_)
        | CallError::NewerForm(_)
        | CallError::NoBlob(_)
        | CallError::DamagedBlob(_)
        | CallError::Unreadable(_)
        | CallError::Conflict(_)
        | CallError::Invalid(_) => true,
        CallError::NoGroup(_)
        | CallError::NoExecutor(_)
        | CallError::NotOwner(_)
        | CallError::WrongHash { .. }
        | CallError::TooLarge { .. }
        | CallError::Busy(_)
        | CallError::Unavailable(_)
        | CallError::Full(_)
        | CallError::Internal(_) => false,
    }
}

fn inline_bytes(record: &NewTaskRecord) -> u64 {
    record.spec.contents().map(|content| content.inline_len()).sum()
}

/// The id of the task that repeats this one in a retry of many tasks. It depends on nothing else, so a call whose answer was
/// lost adds nothing twice.
fn repeated_id(task: &Task) -> TaskId {
    let UnixTime(finished) = task.finish_time.unwrap_or(task.add_time);
    let millis = u64::try_from(finished / 1000).unwrap_or(0);
    let hash: [u8; 32] = Sha256::digest(task.id.0.as_bytes()).into();
    let rest = std::array::from_fn(|index| hash[index]);
    TaskId(Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_that_are_done_without_success_are_searched_for() {
        use TaskStatus::*;
        let check = |statuses: &[TaskStatus], expected: &[TaskStatus]| {
            assert_eq!(failed_statuses(statuses), expected, "{statuses:?}");
        };
        check(&[], &FAILED);
        check(&[Cancelled, Success, RunFailed], &[RunFailed, Cancelled]);
        check(&[Success, Pending], &[]);
    }
}
