//! `conclave add --lines`: adds many tasks, one on each line, in as few requests as possible.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Error, Result, anyhow};
use api::{HttpClient, HttpClientError, NewTask, TaskSummary};

use crate::interrupt::InterruptSignals;
use crate::print::{OutputFormat, Stdout, is_closed_pipe, print_error, print_message};
use crate::task::BatchKey;

/// Reads the lines of `conclave add --lines`, one task on each, and adds the tasks in batches.
struct LineBatchAdder<'a> {
    path: &'a Path,
    key: BatchKey,
    client: &'a HttpClient,
    format: OutputFormat,
    out: Stdout,
    /// Lines that were read and are not yet known to be added.
    pending: VecDeque<TaskLine>,
    pending_bytes: usize,
    /// The largest number of tasks in a request. The server adds all tasks of a request or none.
    max_batch_tasks: usize,
    added: usize,
    /// How many of the pending lines may have been added: their request was sent and has no response.
    in_doubt: usize,
    progress: SharedProgress,
}

/// The summary of `conclave add --lines` so far, which the signal handler prints before it ends the process.
type SharedProgress = Arc<Mutex<String>>;

/// A task that `conclave add --lines` has read, and the number of its line.
struct TaskLine {
    number: usize,
    task: NewTask,
}

/// Tasks in each request, unless the server accepts fewer.
const DEFAULT_BATCH_TASKS: usize = 500;

/// Bytes of lines in each request, well below the limit of a gateway.
const MAX_BATCH_BYTES: usize = 4 << 20;

pub(super) async fn add(
    lines: Box<dyn BufRead>,
    path: &Path,
    key: BatchKey,
    client: &HttpClient,
    format: OutputFormat,
) -> Result<ExitCode> {
    let mut adder = LineBatchAdder::new(path, key, client, format);
    adder.print_summary_on_signal()?;
    match adder.add_all(lines).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            print_error(&error);
            print_message(adder.summary());
            Ok(ExitCode::FAILURE)
        }
    }
}

impl<'a> LineBatchAdder<'a> {
    fn new(
        path: &'a Path,
        key: BatchKey,
        client: &'a HttpClient,
        format: OutputFormat,
    ) -> LineBatchAdder<'a> {
        LineBatchAdder {
            path,
            key,
            client,
            format,
            out: Stdout::open(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            max_batch_tasks: DEFAULT_BATCH_TASKS,
            added: 0,
            in_doubt: 0,
            progress: SharedProgress::default(),
        }
    }

    fn print_summary_on_signal(&self) -> Result<()> {
        self.update_progress();
        let progress = Arc::clone(&self.progress);
        InterruptSignals::listen()?.exit_after(move || {
            let summary = progress.lock().unwrap_or_else(PoisonError::into_inner);
            print_message(format_args!("interrupted; {summary}"));
        });
        Ok(())
    }

    fn update_progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = self.summary();
    }

    async fn add_all(&mut self, lines: Box<dyn BufRead>) -> Result<()> {
        for (index, line) in lines.split(b'\n').enumerate() {
            let line = line.with_context(|| format!("could not read {}", self.path.display()))?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let number = index + 1;
            if let Err(error) = std::str::from_utf8(&line) {
                return Err(self.invalid_line(number, &format!("it is not UTF-8 text: {error}")));
            }
            let mut task: NewTask =
                api::parse_json(&line).map_err(|error| self.invalid_line(number, &error.to_string()))?;
            task.id.get_or_insert_with(|| self.key.task_id(number));
            self.pending_bytes += line.len();
            self.pending.push_back(TaskLine { number, task });
            if self.pending.len() >= self.max_batch_tasks || self.pending_bytes >= MAX_BATCH_BYTES {
                self.send().await?;
            }
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            let count = self.pending.len().min(self.max_batch_tasks);
            let tasks = self.pending.iter().take(count).map(|line| line.task.clone());
            let tasks = tasks.collect();
            self.in_doubt = count;
            self.update_progress();
            match self.client.add_many(tasks).await {
                Ok(summaries) => {
                    self.pending.drain(..count);
                    self.added += count;
                    self.in_doubt = 0;
                    self.update_progress();
                    self.print_added(&summaries)?;
                }
                Err(error) => {
                    if !error.may_have_taken_effect() {
                        self.in_doubt = 0;
                    }
                    self.update_progress();
                    match batch_limit(&error) {
                        Some(limit) if (1..count).contains(&limit) => self.max_batch_tasks = limit,
                        _ => return Err(self.with_line_number(error)),
                    }
                }
            }
        }
        self.pending_bytes = 0;
        Ok(())
    }

    /// A closed pipe is no error here: the remaining tasks are still added.
    fn print_added(&mut self, summaries: &[TaskSummary]) -> Result<()> {
        let printed = match self.format {
            OutputFormat::Text => summaries.iter().try_for_each(|summary| self.out.line(summary.id)),
            OutputFormat::Json => self.out.json_lines(summaries),
        };
        match printed {
            Err(error) if !is_closed_pipe(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn invalid_line(&self, number: usize, problem: &str) -> Error {
        anyhow!("line {number} of {} is invalid: {problem}", self.path.display())
    }

    /// The server names a task by its index in the request. This error names the line instead.
    fn with_line_number(&self, error: HttpClientError) -> Error {
        let Some(problem) = error.problem() else {
            return error.into();
        };
        let line_number = |index: usize| self.pending.get(index).map(|line| line.number);
        let index = problem.field.as_deref().and_then(task_index);
        if let Some(number) = index.and_then(line_number) {
            return self.invalid_line(number, &with_lines(&problem.detail, number, line_number));
        }
        // A conflict (another task has the id) names the id instead of the index.
        let has_named_id = |line: &&TaskLine| {
            line.task
                .id
                .is_some_and(|id| problem.detail.contains(&id.to_string()))
        };
        match self.pending.iter().find(has_named_id) {
            Some(line) if problem.status == 409 => self.invalid_line(line.number, &problem.detail),
            _ => error.into(),
        }
    }

    /// Which tasks were added, which are in doubt, and how to continue.
    fn summary(&self) -> String {
        let added = match self.added {
            0 => "no task is known to have been added".to_string(),
            1 => "1 task was added".to_string(),
            count => format!("{count} tasks were added"),
        };
        let in_doubt = self.pending.iter().take(self.in_doubt);
        let mut numbers = in_doubt.map(|line| line.number);
        let in_doubt = match (numbers.next(), numbers.last()) {
            (None, _) => String::new(),
            (Some(only), None) => format!("; for line {only} it is unknown"),
            (Some(first), Some(last)) => {
                format!(
                    "; for {} more (lines {first} to {last}) it is unknown",
                    self.in_doubt
                )
            }
        };
        if self.added == 0 && self.in_doubt == 0 {
            return "no task was added".to_string();
        }
        format!(
            "{added}{in_doubt}; run the same command again with --key {}: it adds the missing tasks and no task twice",
            self.key
        )
    }
}

/// The server's limit, if it refused the request because of too many tasks.
fn batch_limit(error: &HttpClientError) -> Option<usize> {
    let problem = error.problem()?;
    match problem.field.as_deref() {
        Some("tasks") => problem.limit.as_ref()?.parse().ok(),
        _ => None,
    }
}

/// 17 for `tasks[17].execute.command`.
fn task_index(field: &str) -> Option<usize> {
    let (index, _) = field.strip_prefix("tasks[")?.split_once(']')?;
    index.parse().ok()
}

/// The server's message with line numbers instead of indexes. The line `about`, which the caller names, is left out at the
/// beginning.
fn with_lines(detail: &str, about: usize, line: impl Fn(usize) -> Option<usize>) -> String {
    let mut message = String::new();
    let mut rest = detail;
    while let Some(start) = rest.find("tasks[") {
        let (before, named) = rest.split_at(start);
        message.push_str(before);
        let number = task_index(named).and_then(&line);
        let Some((number, end)) = number.zip(named.find(']')) else {
            message.push_str("tasks[");
            rest = &named["tasks[".len()..];
            continue;
        };
        rest = &named[end + 1..];
        if number == about && message.is_empty() {
            rest = rest.trim_start_matches(['.', ':', ' ']);
        } else {
            message.push_str(&format!("line {number}"));
        }
    }
    message.push_str(rest);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_error_names_a_line_that_is_not_utf8() {
        let client = HttpClient::new("127.0.0.1:1", None).unwrap();
        let mut adder = LineBatchAdder::new(
            Path::new("tasks"),
            BatchKey::generate(),
            &client,
            OutputFormat::Text,
        );
        let lines = b"{\"execute\": {\"command\": \"true\"}}\r\n \n{\"user\": \"\xff\"}\n";
        let error = adder.add_all(Box::new(&lines[..])).await.unwrap_err().to_string();
        assert!(
            error.contains("line 3 of tasks") && error.contains("UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn indexes_become_line_numbers() {
        let check = |detail: &str, expected: &str| {
            let about = task_index(detail).unwrap() + 10;
            assert_eq!(with_lines(detail, about, |index| Some(index + 10)), expected);
        };
        check(
            "tasks[7].execute.limits.wall: is more than the operator allows",
            "execute.limits.wall: is more than the operator allows",
        );
        check(
            "tasks[3].id: is also the id of tasks[1]; give each task its own id",
            "id: is also the id of line 11; give each task its own id",
        );
        check("tasks[0]: is not a task", "is not a task");
        assert_eq!(task_index("tasks"), None);
        assert_eq!(task_index("execute.command"), None);
    }
}
