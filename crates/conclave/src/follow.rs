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

/// How long the server may be away before we give up: a restart takes a second or two.
const PATIENCE: Duration = Duration::from_secs(60);
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
        let mut heard = Instant::now();
        let mut last: Option<Status> = None;
        loop {
            let lost = match self.client.events(self.id).await {
                Ok(mut events) => loop {
                    match events.next().await {
                        Some(Ok(event)) => {
                            heard = Instant::now();
                            if last != Some(event.status) {
                                last = Some(event.status);
                                self.show(&event);
                                on_event(&event)?;
                            }
                            if event.done {
                                self.line.finish_and_clear();
                                return self.result().await;
                            }
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Err(error) => Some(error),
            };
            self.give_up_if_hopeless(lost, heard)?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn show(&self, event: &Event) {
        self.line.set_message(match &event.executor {
            Some(executor) => format!("task {} is {} on {executor}", self.id, event.status),
            None => format!("task {} is {}", self.id, event.status),
        });
    }

    fn give_up_if_hopeless(&self, lost: Option<ClientError>, heard: Instant) -> Result<()> {
        let Some(error) = lost else { return Ok(()) };
        if error.is_transient() && heard.elapsed() < PATIENCE {
            self.line
                .set_message(format!("task {}: {error}; trying again", self.id));
            return Ok(());
        }
        self.line.finish_and_clear();
        Err(anyhow::Error::from(error).context(format!(
            "lost sight of task {}, which goes on; `conclave get {}` shows it",
            self.id, self.id
        )))
    }

    async fn result(&self) -> Result<Task> {
        let asked = Instant::now();
        loop {
            match self.client.get(self.id, None).await {
                Ok(task) => return Ok(task),
                Err(error) => self.give_up_if_hopeless(Some(error), asked)?,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
