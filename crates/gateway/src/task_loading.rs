//! Limits the number of tasks that are loaded from a judicator at one time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use model::{JudgeProblem, ProblemName, Task, TaskId};
use rpc::CallError;
use tokio::task::JoinSet;

use crate::gateway::Gateway;
use crate::quota_pool::{QuotaExceeded, QuotaPermit};
use crate::request_error::RequestError;
use crate::request_quota::{QUOTA_WAIT_TIMEOUT, RequestQuota};
use crate::task_json::EncodedCaseResults;

/// How many tasks are loaded and formatted at one time. The size of a task is known only after it is loaded, so its
/// bytes are not charged: the memory for them is at most this many times the largest task, whose specification and result
/// are bounded. The responses are charged before they are written.
///
/// A usual task holds its permit for a millisecond, so this number is enough for thousands of requests per second.
pub(crate) const MAX_LOADING_TASKS: u64 = 8;

/// A task that the gateway has loaded from a judicator, with the permit that limits how many are loaded at once. It
/// must not be held while waiting for a client, for memory or for a task to end.
pub(crate) struct LoadedTask {
    pub(crate) task: Task,
    pub(crate) permit: QuotaPermit,
}

/// A problem that the gateway has loaded from a judicator, with a permit like that of a [`LoadedTask`]: a problem may have as
/// many cases as a task.
pub(crate) struct LoadedProblem {
    pub(crate) problem: JudgeProblem,
    pub(crate) permit: QuotaPermit,
}

impl Gateway {
    pub(crate) async fn load_problem(
        &self,
        quota: &RequestQuota,
        name: &ProblemName,
    ) -> Result<LoadedProblem, RequestError> {
        let permit = self.acquire_load_permit(quota).await?;
        let problem = self.calls.problem(name.clone()).await?;
        let problem = problem.ok_or_else(|| RequestError::NoProblem(name.clone()))?;
        Ok(LoadedProblem { problem, permit })
    }

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

    /// Loads a task for the body of a response, and returns what `extract` copies from it. In a task of its own, which ends
    /// with the caller: the body is not polled while its client does not read, and would otherwise hold a permit meanwhile.
    pub(crate) async fn load_for_body<T: Send + 'static>(
        self: &Arc<Self>,
        quota: &RequestQuota,
        (id, wait): (TaskId, Duration),
        extract: impl FnOnce(&Task) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (gateway, quota) = (self.clone(), quota.clone());
        run_in_own_task(async move {
            let call = gateway.calls.get(id, Some(wait));
            let loaded = gateway.load_task(&quota, call).await?;
            Ok(extract(&loaded.task))
        })
        .await
        .unwrap_or_else(|| Err(stopping()))
    }

    /// Like `load_for_body`, with the results of the cases of a judged task.
    pub(crate) async fn load_with_results_for_body<T: Send + 'static>(
        self: &Arc<Self>,
        quota: &RequestQuota,
        id: TaskId,
        extract: impl FnOnce(Task, EncodedCaseResults) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (gateway, quota) = (self.clone(), quota.clone());
        run_in_own_task(async move {
            let LoadedTask {
                task,
                permit: _permit,
            } = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
            let results = EncodedCaseResults::load(&gateway, &task).await?;
            Ok(extract(task, results))
        })
        .await
        .unwrap_or_else(|| Err(stopping()))
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

fn stopping() -> RequestError {
    CallError::Unavailable("the gateway stops; try again".into()).into()
}

/// Runs a future in a task of its own, so that it goes on while the caller is not polled. Dropping the caller ends the task.
/// `None` if the runtime stops.
pub(crate) async fn run_in_own_task<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut task = JoinSet::new();
    task.spawn(future);
    task.join_next().await?.ok()
}
