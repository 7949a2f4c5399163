//! Calls about executors.

use model::{DrainReason, ExecutorName};
use reqwest::Method;

use super::{HttpClient, HttpClientError};
use crate::{DrainRequest, ExecutorState, ExecutorsResponse};

impl HttpClient {
    pub async fn executors(&self) -> Result<Vec<ExecutorState>, HttpClientError> {
        let list: ExecutorsResponse = self.json(self.call(Method::GET, "/api/v1/executors")).await?;
        Ok(list.executors)
    }

    /// Keeps the executor from getting new tasks until it is resumed, and returns its state.
    pub async fn drain(
        &self,
        executor: &ExecutorName,
        reason: DrainReason,
    ) -> Result<ExecutorState, HttpClientError> {
        let call = self.call(Method::POST, &format!("/api/v1/executors/{executor}/drain"));
        self.json(call.with_json(&DrainRequest { reason })).await
    }

    /// Ends the drain of the executor, and returns its state.
    pub async fn resume(&self, executor: &ExecutorName) -> Result<ExecutorState, HttpClientError> {
        let call = self.call(Method::POST, &format!("/api/v1/executors/{executor}/resume"));
        self.json(call).await
    }
}
