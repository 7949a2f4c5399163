//! Runs submissions as one group of tasks, and waits until all are judged.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};
use api::{CaseResult, HttpClient, HttpClientError, NewTask, Task};
use futures::{StreamExt, TryStreamExt};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use model::{GroupName, UserName};

use crate::commands::get::get_within;
use crate::exit_code;
use crate::print::print_message;
use crate::task;

/// A group of submissions that are judged together, until a deadline.
pub(crate) struct SubmissionGroup<'a> {
    name: GroupName,
    /// The owner of the tasks, if it is not the caller.
    user: Option<UserName>,
    deadline: Instant,
    client: &'a HttpClient,
}

/// What became of a submission.
pub(crate) enum SubmissionRun {
    Done(Box<Task>),
    /// The server did not add the task, and this is why.
    Refused(String),
}

impl SubmissionRun {
    /// Whether every case has run, and would have ended in the same way under this limit on CPU time. The limit on wall time
    /// is longer, so a program that waits less than this ends in the same way, too.
    pub(crate) fn is_within(&self, limit: Duration) -> bool {
        let SubmissionRun::Done(task) = self else {
            return false;
        };
        let result = task.result.as_ref();
        let cases = result.and_then(|result| result.cases.as_deref());
        let is_within = |case: &CaseResult| {
            let outcome = case.execute.as_ref();
            outcome
                .is_some_and(|outcome| outcome.cpu_seconds.max(outcome.wall_seconds) <= limit.as_secs_f64())
        };
        cases.is_some_and(|cases| cases.iter().all(is_within))
    }
}

/// Why a group of submissions was not judged.
pub(crate) enum GroupFailure {
    /// The time is over. What was not done was cancelled.
    Timeout,
    /// Ctrl-C. What was not done was cancelled.
    Interrupted,
    Failed(Error),
}

impl From<Error> for GroupFailure {
    fn from(error: Error) -> GroupFailure {
        GroupFailure::Failed(error)
    }
}

impl GroupFailure {
    /// The exit code of the command, after a message that says what happened.
    pub(crate) fn into_exit_code(self) -> Result<ExitCode> {
        match self {
            GroupFailure::Timeout => {
                print_message(
                    "not all submissions were judged in time, and the rest was cancelled; raise --wait",
                );
                Ok(ExitCode::from(exit_code::WAIT_TIMEOUT))
            }
            GroupFailure::Interrupted => {
                print_message("the submissions that were not judged were cancelled");
                Ok(ExitCode::from(INTERRUPTED))
            }
            GroupFailure::Failed(error) => Err(error),
        }
    }
}

/// As a shell has it: 128 + SIGINT.
const INTERRUPTED: u8 = 130;
/// Tasks that are added at the same time.
const CONCURRENT_ADDS: usize = 8;
/// A cancel that fails must not keep the command from ending.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

impl<'a> SubmissionGroup<'a> {
    pub(crate) fn new(name: GroupName, wait: Duration, client: &'a HttpClient) -> SubmissionGroup<'a> {
        let now = Instant::now();
        SubmissionGroup {
            name,
            user: None,
            // A wait beyond the end of time has none.
            deadline: now.checked_add(wait).unwrap_or(now + LONGEST_WAIT),
            client,
        }
    }

    /// The tasks belong to this user.
    pub(crate) fn owned_by(self, user: Option<UserName>) -> SubmissionGroup<'a> {
        SubmissionGroup { user, ..self }
    }

    /// A name that no other group has.
    pub(crate) fn unique_name(prefix: &str) -> Result<GroupName> {
        let name = format!("{prefix}-{}", task::new_task_id());
        GroupName::new(&name).map_err(|error| anyhow!("the group's name '{name}' {error}"))
    }

    /// Adds the tasks and waits for all. The order is kept.
    pub(crate) async fn run(&self, tasks: Vec<NewTask>) -> Result<Vec<SubmissionRun>, GroupFailure> {
        let time_left = self.deadline.saturating_duration_since(Instant::now());
        let failure = tokio::select! {
            ran = tokio::time::timeout(time_left, self.add_and_wait(tasks)) => match ran {
                Ok(Ok(runs)) => return Ok(runs),
                Ok(Err(error)) => GroupFailure::Failed(error),
                Err(_) => GroupFailure::Timeout,
            },
            signal = tokio::signal::ctrl_c() => match signal.context("could not listen for Ctrl-C") {
                Ok(()) => GroupFailure::Interrupted,
                Err(error) => GroupFailure::Failed(error),
            },
        };
        self.cancel().await;
        Err(failure)
    }

    async fn add_and_wait(&self, tasks: Vec<NewTask>) -> Result<Vec<SubmissionRun>> {
        let progress = progress_bar(tasks.len());
        let added: Vec<SubmissionRun> = futures::stream::iter(tasks)
            .map(|task| self.add(task))
            .buffered(CONCURRENT_ADDS)
            .try_collect()
            .await?;
        let mut runs = Vec::new();
        for run in added {
            runs.push(match run {
                SubmissionRun::Done(task) => SubmissionRun::Done(Box::new(self.wait_for(*task).await?)),
                refused => refused,
            });
            progress.inc(1);
        }
        Ok(runs)
    }

    async fn add(&self, mut new: NewTask) -> Result<SubmissionRun> {
        new.group = Some(self.name.clone());
        new.user.clone_from(&self.user);
        match task::add(&mut new, None, self.client).await {
            Ok(task) => Ok(SubmissionRun::Done(Box::new(task))),
            Err(error) => match refusal(&error) {
                Some(why) => Ok(SubmissionRun::Refused(why)),
                None => Err(error),
            },
        }
    }

    async fn wait_for(&self, task: Task) -> Result<Task> {
        if task.done {
            return Ok(task);
        }
        let time_left = self.deadline.saturating_duration_since(Instant::now());
        get_within(task.id, time_left, self.client).await
    }

    async fn cancel(&self) {
        let name = &self.name;
        match tokio::time::timeout(CANCEL_TIMEOUT, self.client.cancel_group(name, self.user.as_ref())).await {
            Ok(Ok(_)) => {}
            // No task of the group was added.
            Ok(Err(error)) if error.problem().is_some_and(|problem| problem.status == 404) => {}
            Ok(Err(error)) => print_message(format_args!("could not cancel the group {name}: {error}")),
            Err(_) => print_message(format_args!("could not cancel the group {name}: no response")),
        }
    }
}

/// About a year.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why the server refuses this task, where others may still be added.
fn refusal(error: &Error) -> Option<String> {
    let problem = error.downcast_ref::<HttpClientError>()?.problem()?;
    matches!(problem.status, 409 | 413 | 422).then(|| problem.detail.clone())
}

fn progress_bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::new(count as u64).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("[{bar:20}] {pos}/{len} judged, {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.tick();
    bar
}
