use std::time::Duration;

use model::{SearchCursor, SortOrder, TaskQuery, TaskStatus};
use rpc::{CallError, CancelledTasks};
use store::MAX_CANCELLED_AT_ONCE;
use tokio::time::Instant;

use crate::Judicator;
use crate::error::call_error;

/// One call ends after this many tasks or this time, whichever comes first, and with the page that it is at. A search for a
/// page takes a few seconds at most, so that the answer is in time. The caller continues with another call.
const MAX_TASKS: u64 = 5000;
const MAX_TIME: Duration = Duration::from_secs(2);

impl Judicator {
    /// Goes from the newest task to the oldest, so that tasks added meanwhile do not keep the call going.
    pub(super) async fn on_cancel_matching(&self, query: TaskQuery) -> Result<CancelledTasks, CallError> {
        query.check()?;
        query.require_filter()?;
        let query = self.with_language_name(query);
        let mut answer = CancelledTasks {
            cancelled: 0,
            next: None,
        };
        let statuses = open_statuses(&query.statuses);
        if statuses.is_empty() {
            return Ok(answer);
        }
        let continues = query.after;
        let mut query = TaskQuery {
            statuses,
            order: SortOrder::Newest,
            limit: MAX_CANCELLED_AT_ONCE.min(TaskQuery::MAX_PAGE),
            after: None,
            ..query
        };
        query.after = continues.map(|cursor| query.cursor_at(cursor.add_time, cursor.id));
        let begun = Instant::now();
        loop {
            match self.cancel_page(&query).await {
                Ok((cancelled, next)) => {
                    answer.cancelled += cancelled;
                    answer.next = next;
                }
                // The call that continues here returns the error. This one has a count to return.
                Err(error) if answer.cancelled > 0 => {
                    tracing::debug!(%error, "could not cancel all matching tasks");
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            }
            query.after = answer.next;
            let is_long = answer.cancelled >= MAX_TASKS || begun.elapsed() >= MAX_TIME;
            if query.after.is_none() || is_long {
                let more = answer.next.is_some();
                tracing::debug!(cancelled = answer.cancelled, more, "cancelled matching tasks");
                return Ok(answer);
            }
        }
    }

    /// Returns how many tasks it has cancelled, and where the next page begins.
    async fn cancel_page(&self, query: &TaskQuery) -> Result<(u64, Option<SearchCursor>), CallError> {
        let page = self.store.search(query.clone()).await.map_err(call_error)?;
        let ids: Vec<_> = page.tasks.iter().map(|task| task.id).collect();
        let cancelled = match ids.is_empty() {
            true => 0,
            false => self.store.cancel_many(ids).await.map_err(call_error)?,
        };
        Ok((cancelled, page.next))
    }
}

/// The statuses among these that a task can be cancelled in; no status stands for all.
fn open_statuses(statuses: &[TaskStatus]) -> Vec<TaskStatus> {
    let is_meant = |status: &TaskStatus| statuses.is_empty() || statuses.contains(status);
    let open = TaskStatus::ALL.into_iter().filter(|status| !status.is_done());
    open.filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_that_are_not_done_are_searched_for() {
        use TaskStatus::*;
        let check = |statuses: &[TaskStatus], expected: &[TaskStatus]| {
            assert_eq!(open_statuses(statuses), expected, "{statuses:?}");
        };
        check(&[], &[Pending, Compiling, Running, Retrying]);
        check(&[Running, Success], &[Running]);
        check(&[Success, Cancelled], &[]);
    }
}
