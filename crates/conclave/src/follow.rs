//! Stays with a task until it is done, whatever happens to the connection.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::{Client, ClientError, Event, Task};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use model::{Status, TaskId};

pub(crate) struct Follow<'a> {
    id: TaskId,
    client: &'a Client,
    line: ProgressBar,
}

const PAUSE: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_millis(120);

impl<'a> Follow<'a> {
    /// The progress line is on stderr, and only on a terminal.
    pub(crate) fn new(id: TaskId, client: &'a Client) -> Follow<'a> {
        // Cleared however we leave, so that what is printed next begins on a line of its own.
        let line = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            line.set_style(style);
        }
        line.set_message(format!("task {id}"));
        line.enable_steady_tick(TICK);
        Follow { id, client, line }
    }

    /// For a caller who shows each status itself.
    pub(crate) fn silently(id: TaskId, client: &'a Client) -> Follow<'a> {
        Follow {
            id,
            client,
            line: ProgressBar::hidden(),
        }
    }

    /// Hands on each new status. The connection may break and the server restart: the task goes on, and so do we.
    pub(crate) async fn until_done(self, mut on_event: impl FnMut(&Event) -> Result<()>) -> Result<Task> {
        // Since when nothing was heard although something should have been.
        let mut lost_since: Option<Instant> = None;
        let mut last: Option<Status> = None;
        loop {
            let lost = match self.client.events(self.id).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(event)) => {
                            lost_since = None;
                            if last != Some(event.status) {
                                last = Some(event.status);
                                self.show(&event);
                                on_event(&event)?;
                            }
                            if event.done {
                                self.line.finish_and_clear();
                                let task = self.client.get(self.id, None).await;
                                return task.map_err(|error| self.lost_sight(error));
                            }
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Err(error) => Some(error),
            };
            if let Some(error) = lost {
                let since = *lost_since.get_or_insert_with(Instant::now);
                if !self.client.is_worth_repeating(&error, since) {
                    return Err(self.lost_sight(error));
                }
                self.line
                    .set_message(format!("task {}: {error}; trying again", self.id));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn show(&self, event: &Event) {
        self.line.set_message(match &event.executor {
            Some(executor) => format!("task {} is {} on {executor}", self.id, event.status),
            None => format!("task {} is {}", self.id, event.status),
        });
    }

    fn lost_sight(&self, error: ClientError) -> anyhow::Error {
        self.line.finish_and_clear();
        // The server has answered that it cannot be followed: there may be no such task. A reached limit (429) says
        // nothing about the task.
        if !error.is_transient() && error.problem().is_some_and(|problem| problem.status < 500) {
            return error.into();
        }
        anyhow::Error::from(error).context(format!(
            "lost sight of task {id}; `conclave get {id}` shows whether it goes on",
            id = self.id
        ))
    }
}
