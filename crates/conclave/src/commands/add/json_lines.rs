//! `conclave add --lines`: adds many tasks, one on each line, in as few requests as possible.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Error, Result, bail};
use api::{HttpClient, HttpClientError, NewTask, TaskSummary};
use model::TaskId;

use super::line_file::{LineFile, TextLine};
use super::resume_file::{self, ResumeFileReader, ResumeFileUpdate, ResumeFileWriter};
use crate::args::TaskSetFlags;
use crate::interrupt::InterruptSignals;
use crate::print::{OutputFormat, Stdout, is_closed_pipe, print_error, print_message};
use crate::task::{self, BatchKey};

/// Where the ids of the tasks of `conclave add --lines` come from. They are known before a task is sent, so that a rerun
/// adds no task twice.
pub(super) enum IdSource {
    /// They are derived from a key that the user gave.
    GivenKey(BatchKey),
    /// They are derived from a key that is printed, because the lines come from a pipe.
    NewKey(BatchKey),
    /// They are in the file that the user named, or will be.
    NamedFile(PathBuf),
    /// They will be in a file beside the file of the lines.
    DefaultFile(PathBuf),
}

/// Reads the lines of `conclave add --lines`, one task on each, and adds the tasks in batches.
struct LineBatchAdder<'a> {
    path: &'a Path,
    ids: IdSource,
    set: &'a TaskSetFlags,
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

/// The ids of the lines that `conclave add --lines` sends.
enum LineIds {
    Key(BatchKey),
    Saved(ResumeFileReader),
}

/// Tasks in each request, unless the server accepts fewer.
const DEFAULT_BATCH_TASKS: usize = 500;

/// Bytes of lines in each request, well below the limit of a gateway.
const MAX_BATCH_BYTES: usize = 4 << 20;

pub(super) async fn add(
    path: &Path,
    ids: IdSource,
    set: &TaskSetFlags,
    client: &HttpClient,
    format: OutputFormat,
) -> Result<ExitCode> {
    let mut adder = LineBatchAdder {
        path,
        ids,
        set,
        client,
        format,
        out: Stdout::open(),
        pending: VecDeque::new(),
        pending_bytes: 0,
        max_batch_tasks: DEFAULT_BATCH_TASKS,
        added: 0,
        in_doubt: 0,
        progress: SharedProgress::default(),
    };
    adder.print_summary_on_signal()?;
    match adder.add_all().await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            print_error(&error);
            print_message(adder.summary());
            Ok(ExitCode::FAILURE)
        }
    }
}

impl IdSource {
    pub(super) fn new(lines: &Path, resume: Option<&Path>, key: Option<BatchKey>) -> IdSource {
        let is_file = std::fs::metadata(lines).is_ok_and(|metadata| metadata.is_file());
        match (key, resume) {
            (Some(key), _) => IdSource::GivenKey(key),
            (None, Some(path)) => IdSource::NamedFile(path.to_path_buf()),
            (None, None) if is_file && lines != Path::new("-") => {
                let mut path = lines.as_os_str().to_os_string();
                path.push(".ids");
                IdSource::DefaultFile(path.into())
            }
            (None, None) => IdSource::NewKey(BatchKey::generate()),
        }
    }

    /// Checks all lines, and makes sure that the ids are known if this process ends from here on.
    fn prepare(&self, file: &LineFile, set: &TaskSetFlags) -> Result<LineIds> {
        match self {
            IdSource::GivenKey(key) => {
                file.check(set, |_, _| Ok(()))?;
                Ok(LineIds::Key(*key))
            }
            IdSource::NewKey(key) => {
                file.check(set, |_, _| Ok(()))?;
                print_message(format_args!(
                    "if this command is interrupted, run it again with --key {key}: no task is added twice"
                ));
                Ok(LineIds::Key(*key))
            }
            IdSource::NamedFile(path) if path.exists() => {
                let mut update = ResumeFileUpdate::open(path)?;
                file.check(set, |line, task| update.add(line, task.id))?;
                update.finish()?;
                Ok(LineIds::Saved(ResumeFileReader::open(path)?))
            }
            IdSource::DefaultFile(path) if resume_file::is_unfinished(path)? => bail!(
                "{path} has the ids of an earlier command that may not have added all lines; continue with \
                 --resume {path}, or remove it to add all lines as new tasks",
                path = path.display()
            ),
            IdSource::NamedFile(path) | IdSource::DefaultFile(path) => {
                let mut writer = ResumeFileWriter::create(path)?;
                file.check(set, |line, task| {
                    writer.add(line, task.id.unwrap_or_else(task::new_task_id))
                })?;
                writer.finish()?;
                Ok(LineIds::Saved(ResumeFileReader::open(path)?))
            }
        }
    }

    /// The flag with which a rerun continues.
    fn flag(&self) -> String {
        match self {
            IdSource::GivenKey(key) | IdSource::NewKey(key) => format!("--key {key}"),
            IdSource::NamedFile(path) | IdSource::DefaultFile(path) => {
                format!("--resume {}", path.display())
            }
        }
    }

    /// All tasks were added.
    fn complete(&self) -> Result<()> {
        match self {
            IdSource::GivenKey(_) | IdSource::NewKey(_) => Ok(()),
            IdSource::NamedFile(path) | IdSource::DefaultFile(path) => resume_file::mark_complete(path),
        }
    }
}

impl LineIds {
    fn id_of(&mut self, line: &TextLine, task: &NewTask) -> Result<TaskId> {
        match self {
            LineIds::Key(key) => Ok(task.id.unwrap_or_else(|| key.task_id(line.number))),
            LineIds::Saved(saved) => saved.id_of(line),
        }
    }
}

impl LineBatchAdder<'_> {
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

    async fn add_all(&mut self) -> Result<()> {
        let file = LineFile::open(self.path)?;
        let mut ids = self.ids.prepare(&file, self.set)?;
        for line in file.lines()? {
            let line = line?;
            let number = line.number;
            let parsed = line.parse(self.set);
            let mut task = parsed.map_err(|problem| file.invalid_line(number, &problem))?;
            task.id = Some(ids.id_of(&line, &task)?);
            self.pending_bytes += line.text.len();
            self.pending.push_back(TaskLine { number, task });
            if self.pending.len() >= self.max_batch_tasks || self.pending_bytes >= MAX_BATCH_BYTES {
                self.send().await?;
            }
        }
        self.send().await?;
        self.ids.complete()
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
        anyhow::anyhow!("line {number} of {} is invalid: {problem}", self.path.display())
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
            "{added}{in_doubt}; run the same command again with {}: it adds the missing tasks and no task twice",
            self.ids.flag()
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

    #[test]
    fn ids_are_saved_beside_a_file_and_derived_from_a_key_for_a_pipe() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flag = |lines: &Path, resume: Option<&str>, key: Option<BatchKey>| {
            IdSource::new(lines, resume.map(Path::new), key).flag()
        };
        let key = BatchKey::generate();
        assert_eq!(
            flag(file.path(), None, None),
            format!("--resume {}.ids", file.path().display())
        );
        assert_eq!(flag(file.path(), Some("x"), None), "--resume x");
        assert_eq!(flag(file.path(), None, Some(key)), format!("--key {key}"));
        assert!(flag(Path::new("-"), None, None).starts_with("--key "));
        assert!(flag(Path::new("/dev/null"), None, None).starts_with("--key "));
        assert_eq!(flag(Path::new("-"), Some("x"), None), "--resume x");
    }

    #[test]
    fn an_unfinished_batch_is_continued_only_on_request_and_a_finished_one_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks");
        std::fs::write(&path, "{\"execute\": {\"command\": \"true\"}}\n").unwrap();
        let file = LineFile::open(&path).unwrap();
        let set = TaskSetFlags::default();
        let line = || file.lines().unwrap().next().unwrap().unwrap();
        let id = |ids: LineIds| {
            let mut ids = ids;
            ids.id_of(&line(), &line().parse(&set).unwrap()).unwrap()
        };
        let default = IdSource::new(&path, None, None);
        let first = id(default.prepare(&file, &set).unwrap());
        let error = default.prepare(&file, &set).err().unwrap().to_string();
        assert!(error.contains("continue with --resume"), "{error}");
        let ids_path = folder.path().join("tasks.ids");
        let resumed = IdSource::new(&path, Some(&ids_path), None);
        assert_eq!(id(resumed.prepare(&file, &set).unwrap()), first);
        resumed.complete().unwrap();
        assert_eq!(id(resumed.prepare(&file, &set).unwrap()), first);
        assert_ne!(id(default.prepare(&file, &set).unwrap()), first);
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
