//! Many tasks, one on each line, in as few calls as possible.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Error, Result, anyhow};
use api::{Brief, Client, ClientError, NewTask};

use crate::commands::sandbox::interrupts::Interrupts;
use crate::print::{Form, Out, complain, complain_about, is_closed_pipe};
use crate::task::BatchKey;

struct Adding<'a> {
    path: &'a Path,
    key: BatchKey,
    client: &'a Client,
    form: Form,
    out: Out,
    /// Read and not yet known to be added.
    waiting: VecDeque<Line>,
    bytes: usize,
    /// Tasks for each call. Each call is added in full or not at all.
    most: usize,
    added: usize,
    /// How many of those waiting may have been added.
    in_doubt: usize,
    known: Known,
}

/// What a signal has to tell before it ends the process.
type Known = Arc<Mutex<String>>;

struct Line {
    number: usize,
    task: NewTask,
}

/// Tasks for each call, unless the server takes fewer.
const BATCH: usize = 500;

/// Bytes of lines for each call, well below what a gateway takes.
const BATCH_BYTES: usize = 4 << 20;

pub(super) async fn add(
    lines: Box<dyn BufRead>,
    path: &Path,
    key: BatchKey,
    client: &Client,
    form: Form,
) -> Result<ExitCode> {
    let mut adding = Adding::new(path, key, client, form);
    adding.tell_on_signals()?;
    match adding.all(lines).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            complain_about(&error);
            complain(adding.what_is_known());
            Ok(ExitCode::FAILURE)
        }
    }
}

impl<'a> Adding<'a> {
    fn new(path: &'a Path, key: BatchKey, client: &'a Client, form: Form) -> Adding<'a> {
        Adding {
            path,
            key,
            client,
            form,
            out: Out::open(),
            waiting: VecDeque::new(),
            bytes: 0,
            most: BATCH,
            added: 0,
            in_doubt: 0,
            known: Known::default(),
        }
    }

    fn tell_on_signals(&self) -> Result<()> {
        self.note_known();
        let known = Arc::clone(&self.known);
        Interrupts::listen()?.exit_after(move || {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            complain(format_args!("interrupted; {known}"));
        });
        Ok(())
    }

    fn note_known(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = self.what_is_known();
    }

    async fn all(&mut self, lines: Box<dyn BufRead>) -> Result<()> {
        for (index, line) in lines.split(b'\n').enumerate() {
            let line = line.with_context(|| format!("could not read {}", self.path.display()))?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let number = index + 1;
            if let Err(wrong) = std::str::from_utf8(&line) {
                return Err(self.wrong(number, &format!("it is not UTF-8 text: {wrong}")));
            }
            let mut task: NewTask =
                api::parse(&line).map_err(|wrong| self.wrong(number, &wrong.to_string()))?;
            task.id.get_or_insert_with(|| self.key.id(number));
            self.bytes += line.len();
            self.waiting.push_back(Line { number, task });
            if self.waiting.len() >= self.most || self.bytes >= BATCH_BYTES {
                self.send().await?;
            }
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(self.most);
            let tasks = self.waiting.iter().take(count).map(|line| line.task.clone());
            let tasks = tasks.collect();
            self.in_doubt = count;
            self.note_known();
            match self.client.add_many(tasks).await {
                Ok(briefs) => {
                    self.waiting.drain(..count);
                    self.added += count;
                    self.in_doubt = 0;
                    self.note_known();
                    self.print(&briefs)?;
                }
                Err(error) => {
                    if !error.may_have_been_done() {
                        self.in_doubt = 0;
                    }
                    self.note_known();
                    match most_tasks(&error) {
                        Some(most) if (1..count).contains(&most) => self.most = most,
                        _ => return Err(self.blamed(error)),
                    }
                }
            }
        }
        self.bytes = 0;
        Ok(())
    }

    /// That nobody reads the ids does not end the adding.
    fn print(&mut self, briefs: &[Brief]) -> Result<()> {
        let printed = match self.form {
            Form::People => briefs.iter().try_for_each(|brief| self.out.line(brief.id)),
            Form::Json => self.out.json_lines(briefs),
        };
        match printed {
            Err(error) if !is_closed_pipe(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn wrong(&self, number: usize, problem: &str) -> Error {
        anyhow!("line {number} of {} is wrong: {problem}", self.path.display())
    }

    /// The server names a task by its place in the call; a person knows it by its line.
    fn blamed(&self, error: ClientError) -> Error {
        let Some(problem) = error.problem() else {
            return error.into();
        };
        let number = |index: usize| self.waiting.get(index).map(|line| line.number);
        if let Some(number) = problem.field.as_deref().and_then(place).and_then(number) {
            return self.wrong(
                number,
                &with_lines(&problem.detail, number, |index| self.line(index)),
            );
        }
        // Another task has the id: then the message names the id alone.
        let named = |line: &&Line| {
            line.task
                .id
                .is_some_and(|id| problem.detail.contains(&id.to_string()))
        };
        match self.waiting.iter().find(named) {
            Some(line) if problem.status == 409 => self.wrong(line.number, &problem.detail),
            _ => error.into(),
        }
    }

    fn line(&self, index: usize) -> Option<usize> {
        self.waiting.get(index).map(|line| line.number)
    }

    fn what_is_known(&self) -> String {
        let added = match self.added {
            0 => "no task is known to be added".to_string(),
            1 => "1 task was added".to_string(),
            count => format!("{count} tasks were added"),
        };
        let in_doubt = self.waiting.iter().take(self.in_doubt);
        let mut numbers = in_doubt.map(|line| line.number);
        let in_doubt = match (numbers.next(), numbers.last()) {
            (None, _) => String::new(),
            (Some(only), None) => format!("; of line {only} it is not known"),
            (Some(first), Some(last)) => {
                format!(
                    "; of {} more (lines {first} to {last}) it is not known",
                    self.in_doubt
                )
            }
        };
        if self.added == 0 && self.in_doubt == 0 {
            return "no task was added".to_string();
        }
        format!(
            "{added}{in_doubt}; run the same command again with --key {}: it adds what is missing and nothing twice",
            self.key
        )
    }
}

/// The limit, if the server refused the call because it has too many tasks.
fn most_tasks(error: &ClientError) -> Option<usize> {
    let problem = error.problem()?;
    match problem.field.as_deref() {
        Some("tasks") => problem.limit.as_ref()?.parse().ok(),
        _ => None,
    }
}

/// 17 for `tasks[17].execute.command`.
fn place(field: &str) -> Option<usize> {
    let (index, _) = field.strip_prefix("tasks[")?.split_once(']')?;
    index.parse().ok()
}

/// The server's sentence with lines instead of places; the line that it is about needs not be named again.
fn with_lines(detail: &str, about: usize, line: impl Fn(usize) -> Option<usize>) -> String {
    let mut said = String::new();
    let mut rest = detail;
    while let Some(start) = rest.find("tasks[") {
        let (before, named) = rest.split_at(start);
        said.push_str(before);
        let number = place(named).and_then(&line);
        let Some((number, end)) = number.zip(named.find(']')) else {
            said.push_str("tasks[");
            rest = &named["tasks[".len()..];
            continue;
        };
        rest = &named[end + 1..];
        if number == about && said.is_empty() {
            rest = rest.trim_start_matches(['.', ':', ' ']);
        } else {
            said.push_str(&format!("line {number}"));
        }
    }
    said.push_str(rest);
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_not_utf8_is_named() {
        let client = Client::new("127.0.0.1:1", None).unwrap();
        let mut adding = Adding::new(Path::new("tasks"), BatchKey::generate(), &client, Form::People);
        let lines = b"{\"execute\": {\"command\": \"true\"}}\r\n \n{\"user\": \"\xff\"}\n";
        let wrong = adding.all(Box::new(&lines[..])).await.unwrap_err().to_string();
        assert!(
            wrong.contains("line 3 of tasks") && wrong.contains("UTF-8"),
            "{wrong}"
        );
    }

    #[test]
    fn places_become_lines() {
        let check = |detail: &str, expected: &str| {
            let about = place(detail).unwrap() + 10;
            assert_eq!(with_lines(detail, about, |index| Some(index + 10)), expected);
        };
        check(
            "tasks[7].execute.limits.wall: is more than the operator allows",
            "execute.limits.wall: is more than the operator allows",
        );
        check(
            "tasks[3].id: is the same as that of tasks[1]; give each task its own",
            "id: is the same as that of line 11; give each task its own",
        );
        check("tasks[0]: is not a task", "is not a task");
        assert_eq!(place("tasks"), None);
        assert_eq!(place("execute.command"), None);
    }
}
