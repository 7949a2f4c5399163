//! Calls about tasks, except for their outputs and files.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use model::{TaskId, TaskQuery};
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use uuid::Uuid;

use super::events::{self, ReceivedTaskEvent};
use super::{EVENTS_IDLE_TIMEOUT, HttpClient, HttpClientError};
use crate::{
    AddedTasks, CancelledTasks, NewTask, NewTasks, Page, Task, TaskEvent, TaskSummary, TaskWait, query_pairs,
};

/// The header by which a server recognises a repeated request.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl HttpClient {
    /// Adds a task. With `wait`, returns when the task is done or the wait is over.
    /// Only a task with an id can be added again safely after an error.
    pub async fn add(&self, task: &NewTask, wait: Option<Duration>) -> Result<Task, HttpClientError> {
        let call = self.call(Method::POST, "/api/v1/tasks");
        self.json(call.with_json(task).with_wait(wait)).await
    }

    /// Adds all tasks or none, in one request.
    pub async fn add_many(&self, tasks: Vec<NewTask>) -> Result<Vec<TaskSummary>, HttpClientError> {
        let call = self.call(Method::POST, "/api/v1/tasks/batch");
        let added: AddedTasks = self.json(call.with_json(&NewTasks { tasks })).await?;
        Ok(added.tasks)
    }

    /// Gets a task. With `wait`, returns when the task is done or the wait is over.
    pub async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, HttpClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/tasks/{id}"));
        self.json(call.with_wait(wait)).await
    }

    /// Tells why a task has not begun to run.
    pub async fn waiting(&self, id: TaskId) -> Result<TaskWait, HttpClientError> {
        self.json(self.call(Method::GET, &format!("/api/v1/tasks/{id}/waiting")))
            .await
    }

    pub async fn search(&self, query: &TaskQuery) -> Result<Page, HttpClientError> {
        let mut call = self.call(Method::GET, "/api/v1/tasks");
        call.url.query_pairs_mut().extend_pairs(query_pairs(query));
        self.json(call).await
    }

    /// Returns the cancelled task. A task that has ended with another status is refused with status 409.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, HttpClientError> {
        self.json(self.call(Method::DELETE, &format!("/api/v1/tasks/{id}")))
            .await
    }

    /// Cancels all tasks that match the filters of the query and are not done; its order and page do not count. Returns
    /// how many there were. The server requires a filter.
    pub async fn cancel_matching(&self, query: &TaskQuery) -> Result<u64, HttpClientError> {
        let filters = TaskQuery {
            after: None,
            limit: 0,
            ..query.clone()
        };
        let mut call = self.call(Method::DELETE, "/api/v1/tasks");
        let pairs = query_pairs(&filters)
            .into_iter()
            .filter(|(name, _)| *name != "order");
        call.url.query_pairs_mut().extend_pairs(pairs);
        let cancelled: CancelledTasks = self.json(call).await?;
        Ok(cancelled.cancelled)
    }

    /// Adds a task that repeats a task which is done, and returns the new one. A repeated request of this call adds no
    /// second task; a second call does.
    pub async fn retry(&self, id: TaskId) -> Result<Task, HttpClientError> {
        let mut call = self.call(Method::POST, &format!("/api/v1/tasks/{id}/retry"));
        // The text of a UUID is a valid value of a header.
        if let Ok(key) = HeaderValue::from_str(&Uuid::now_v7().to_string()) {
            call = call.with_header(IDEMPOTENCY_KEY, key);
        }
        self.json(call).await
    }

    /// The task's current status, then every change until it is done. The request is not repeated.
    pub async fn events(
        &self,
        id: TaskId,
    ) -> Result<BoxStream<'static, Result<TaskEvent, HttpClientError>>, HttpClientError> {
        let call = self.call(Method::GET, &format!("/api/v1/tasks/{id}/events"));
        let response = self.open(&call).await?;
        let bytes = self.stream_body(response, EVENTS_IDLE_TIMEOUT);
        Ok(events::read(bytes, events::parse_status).boxed())
    }

    /// The task's statuses, the verdicts on its cases, and its output while it is written, until it is done: from the first byte on, or after the event
    /// with `last_event_id`. The request is not repeated; a caller that reconnects sends the last id that it received.
    pub async fn events_with_output(
        &self,
        id: TaskId,
        last_event_id: Option<&str>,
    ) -> Result<BoxStream<'static, Result<ReceivedTaskEvent, HttpClientError>>, HttpClientError> {
        let mut call = self
            .call(Method::GET, &format!("/api/v1/tasks/{id}/events"))
            .with_parameter("output", Some("true"));
        // The server's ids are valid values of a header. Without one, the output would come again from its start.
        if let Some(Ok(last)) = last_event_id.map(HeaderValue::from_str) {
            call = call.with_header(LAST_EVENT_ID, last);
        }
        let response = self.open(&call).await?;
        let bytes = self.stream_body(response, EVENTS_IDLE_TIMEOUT);
        Ok(events::read(bytes, events::parse_followed).boxed())
    }
}
