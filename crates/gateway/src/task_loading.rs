//! Limits the number of tasks that are loaded from a judicator at one time.

use std::future::Future;

use model::Task;
use rpc::CallError;

use crate::gateway::Gateway;
use crate::quota_pool::{QuotaExceeded, QuotaPermit};
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};

/// How many tasks are loaded and formatted at one time. The size of a task is known only after it is loaded, so its
/// bytes are not charged: the memory for them is at most this many times the largest task, which the operator limits
/// with `executor.keep_output`. The responses are charged before they are written.
///
/// A usual task holds its permit for a millisecond, so this number is enough for thousands of requests per second.
pub(crate) const MAX_LOADING_TASKS: u64 = 8;

/// A task that the gateway has loaded from a judicator, with the permit that limits how many are loaded at once. It
/// must not be held while waiting for a client, for memory or for a task to end.
pub(crate) struct LoadedTask {
    pub(crate) task: Task,
    pub(crate) permit: QuotaPermit,
}

impl Gateway {
    /// Runs a call that returns a task. Callers take turns.
    pub(crate) async fn load_task(
        &self,
        quota: &RequestQuota,
        call: impl Future<Output = Result<Task, CallError>>,
    ) -> Result<LoadedTask, RequestError> {
        let permit = self.acquire_load_permit(quota).await?;
        let task = call.await?;
        Ok(LoadedTask { task, permit })
    }

    pub(crate) async fn acquire_load_permit(
        &self,
        quota: &RequestQuota,
    ) -> Result<QuotaPermit, QuotaExceeded> {
        self.loading
            .acquire_within(QUOTA_WAIT_TIMEOUT, quota.key(), 1)
            .await
    }
}
