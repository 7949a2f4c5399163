//! Calls about the outputs of a task's steps.

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use model::{StepName, StreamName, TaskId};
use reqwest::Method;

use super::request::ResponseKind;
use super::resume::{ResumableDownload, ResumableRequest};
use super::{EVENTS_IDLE_TIMEOUT, HttpClient, HttpClientError};

/// The bytes of a task's output that the HTTP client downloads from a gateway, as a stream.
pub type OutputDownload = BoxStream<'static, Result<Bytes, HttpClientError>>;

impl HttpClient {
    /// The exact bytes that a step wrote, up to the number that is kept.
    pub async fn output(
        &self,
        id: TaskId,
        step: StepName,
        stream: StreamName,
    ) -> Result<Bytes, HttpClientError> {
        let mut call = self.call(Method::GET, &output_path(id, step, stream));
        call.response = ResponseKind::Bytes;
        let (_, body) = self.send_with_retries(call).await?;
        Ok(body)
    }

    /// The bytes that a step writes, from `offset` on, while they are written, until the step ends. Continues at its
    /// offset after a lost connection, as the options of the client allow. Use [`HttpClient::events_with_output`] for a task that is
    /// not done: a lost attempt looks like a lost connection here, and the next one writes from the beginning.
    pub fn follow_output(
        &self,
        id: TaskId,
        step: StepName,
        stream: StreamName,
        offset: u64,
    ) -> OutputDownload {
        let call = self
            .call(Method::GET, &output_path(id, step, stream))
            .with_parameter("follow", Some("true"));
        let request = ResumableRequest::Offset {
            call,
            reconnect_after: EVENTS_IDLE_TIMEOUT,
        };
        ResumableDownload::new(self, request, offset)
            .into_stream()
            .boxed()
    }
}

fn output_path(id: TaskId, step: StepName, stream: StreamName) -> String {
    format!("/api/v1/tasks/{id}/{}/{}", step.as_str(), stream.as_str())
}
