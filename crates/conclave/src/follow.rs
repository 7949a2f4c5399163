//! Follows a task until it is done, across lost connections and restarts of the server.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::{HttpClient, HttpClientError, ReceivedTaskEvent, Task, TaskEvent, TaskStreamEvent};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use model::{TaskId, TaskStatus};

/// A task that a client command such as `conclave run` follows until it is done, with its status on a progress line.
pub(crate) struct FollowedTask<'a> {
    id: TaskId,
    client: &'a HttpClient,
    progress: ProgressBar,
    content: FollowedContent,
}

/// What a client command follows of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowedContent {
    Status,
    StatusAndOutput,
}

const RECONNECT_DELAY: Duration = Duration::from_millis(250);
const PROGRESS_REFRESH: Duration = Duration::from_millis(120);

impl<'a> FollowedTask<'a> {
    /// Shows a progress line on stderr if stderr is a terminal, until the task writes something.
    pub(crate) fn new(id: TaskId, content: FollowedContent, client: &'a HttpClient) -> FollowedTask<'a> {
        // The line is cleared when it is dropped, so that later output begins at the start of a line.
        let progress = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            progress.set_style(style);
        }
        progress.set_message(format!("task {id}"));
        progress.enable_steady_tick(PROGRESS_REFRESH);
        FollowedTask {
            id,
            client,
            progress,
            content,
        }
    }

    /// For a caller that prints each status itself.
    pub(crate) fn without_progress(
        id: TaskId,
        content: FollowedContent,
        client: &'a HttpClient,
    ) -> FollowedTask<'a> {
        FollowedTask {
            id,
            client,
            progress: ProgressBar::hidden(),
            content,
        }
    }

    /// Calls `on_event` for each new status and each piece of output, and returns the task when it is done. Reconnects
    /// after a lost connection and continues after the last piece of output that came.
    pub(crate) async fn until_done(
        self,
        mut on_event: impl AsyncFnMut(TaskStreamEvent) -> Result<()>,
    ) -> Result<Task> {
        // The time of the first failure since the last event.
        let mut failing_since: Option<Instant> = None;
        let mut last_status: Option<TaskStatus> = None;
        let mut last_id: Option<String> = None;
        loop {
            let failure = match self.open(last_id.as_deref()).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(ReceivedTaskEvent { id, event })) => {
                            failing_since = None;
                            let is_done = matches!(&event, TaskStreamEvent::Status(status) if status.done);
                            if self.is_news(&event, &mut last_status) {
                                on_event(event).await?;
                            }
                            last_id = id.or(last_id);
                            if is_done {
                                self.progress.finish_and_clear();
                                let task = self.client.get(self.id, None).await;
                                return task.map_err(|error| self.following_failed(error));
                            }
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Err(error) => Some(error),
            };
            if let Some(error) = failure {
                let since = *failing_since.get_or_insert_with(Instant::now);
                if !self.client.should_retry(&error, since) {
                    return Err(self.following_failed(error));
                }
                self.progress
                    .set_message(format!("task {}: {error}; retrying", self.id));
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    async fn open(
        &self,
        last_id: Option<&str>,
    ) -> Result<BoxStream<'static, Result<ReceivedTaskEvent, HttpClientError>>, HttpClientError> {
        match self.content {
            FollowedContent::Status => {
                let events = self.client.events(self.id).await?;
                let received = |event| ReceivedTaskEvent {
                    id: None,
                    event: TaskStreamEvent::Status(event),
                };
                Ok(events.map_ok(received).boxed())
            }
            FollowedContent::StatusAndOutput => self.client.events_with_output(self.id, last_id).await,
        }
    }

    /// After a lost connection the server sends the current status again.
    fn is_news(&self, event: &TaskStreamEvent, last_status: &mut Option<TaskStatus>) -> bool {
        match event {
            TaskStreamEvent::Status(event) => {
                self.show(event);
                last_status.replace(event.status) != Some(event.status)
            }
            TaskStreamEvent::Case(_) | TaskStreamEvent::Output(_) => {
                // The progress line would mix with the output.
                self.progress.finish_and_clear();
                true
            }
        }
    }

    fn show(&self, event: &TaskEvent) {
        self.progress.set_message(match &event.executor {
            Some(executor) => format!("task {} is {} on {executor}", self.id, event.status),
            None => format!("task {} is {}", self.id, event.status),
        });
    }

    fn following_failed(&self, error: HttpClientError) -> anyhow::Error {
        self.progress.finish_and_clear();
        // The server refused the request, for instance because there is no such task. A 429 is transient and says nothing
        // about the task.
        if !error.is_transient() && error.problem().is_some_and(|problem| problem.status < 500) {
            return error.into();
        }
        anyhow::Error::from(error).context(format!(
            "lost the connection while task {id} was not done; `conclave get {id}` shows its status",
            id = self.id
        ))
    }
}
