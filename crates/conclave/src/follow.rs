//! Follows the events of a task until it is done, across lost connections and restarts of the server.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::{HttpClient, HttpClientError, Task, TaskEvent};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use model::{TaskId, TaskStatus};

/// Follows the status of one task for a client command such as `conclave run`, and shows it on a progress line.
pub(crate) struct TaskFollower<'a> {
    id: TaskId,
    client: &'a HttpClient,
    progress: ProgressBar,
}

const RECONNECT_DELAY: Duration = Duration::from_millis(250);
const PROGRESS_REFRESH: Duration = Duration::from_millis(120);

impl<'a> TaskFollower<'a> {
    /// Shows a progress line on stderr if stderr is a terminal.
    pub(crate) fn new(id: TaskId, client: &'a HttpClient) -> TaskFollower<'a> {
        // The line is cleared when it is dropped, so that later output begins at the start of a line.
        let progress = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            progress.set_style(style);
        }
        progress.set_message(format!("task {id}"));
        progress.enable_steady_tick(PROGRESS_REFRESH);
        TaskFollower { id, client, progress }
    }

    /// For a caller that prints each status itself.
    pub(crate) fn without_progress(id: TaskId, client: &'a HttpClient) -> TaskFollower<'a> {
        TaskFollower {
            id,
            client,
            progress: ProgressBar::hidden(),
        }
    }

    /// Calls `on_event` for each new status and returns the task when it is done. Reconnects after a lost connection.
    pub(crate) async fn until_done(self, mut on_event: impl FnMut(&TaskEvent) -> Result<()>) -> Result<Task> {
        // The time of the first failure since the last event.
        let mut failing_since: Option<Instant> = None;
        let mut last: Option<TaskStatus> = None;
        loop {
            let failure = match self.client.events(self.id).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(event)) => {
                            failing_since = None;
                            if last != Some(event.status) {
                                last = Some(event.status);
                                self.show(&event);
                                on_event(&event)?;
                            }
                            if event.done {
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
