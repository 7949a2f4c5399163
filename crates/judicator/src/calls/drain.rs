use model::{DrainReason, ExecutorDrain, ExecutorName, ExecutorState, UserName};
use rpc::CallError;

use crate::error::call_error;
use crate::{Judicator, now};

impl Judicator {
    pub(super) async fn on_drain(
        &self,
        executor: ExecutorName,
        reason: DrainReason,
        by: Option<UserName>,
    ) -> Result<ExecutorState, CallError> {
        let drain = ExecutorDrain {
            reason,
            by,
            since: now(),
        };
        let state = self.set_drain(executor, Some(drain.clone())).await?;
        let by = drain.by.as_ref().map(UserName::as_str);
        tracing::info!(executor = %state.name, reason = %drain.reason, by, "executor drained");
        Ok(state)
    }

    pub(super) async fn on_resume(&self, executor: ExecutorName) -> Result<ExecutorState, CallError> {
        let state = self.set_drain(executor, None).await?;
        tracing::info!(executor = %state.name, "executor resumed");
        Ok(state)
    }

    /// The change event of the store wakes the executor, at whichever judicator it watches.
    async fn set_drain(
        &self,
        executor: ExecutorName,
        drain: Option<ExecutorDrain>,
    ) -> Result<ExecutorState, CallError> {
        let exists = self.store.set_drain(executor.clone(), drain).await;
        if !exists.map_err(call_error)? {
            return Err(CallError::NoExecutor(executor));
        }
        let executors = self.store.executors().await.map_err(call_error)?;
        let state = executors.into_iter().find(|state| state.name == executor);
        state.ok_or(CallError::NoExecutor(executor))
    }
}
