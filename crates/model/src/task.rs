//! What a user asks for, and what is known of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Attempt, BlobHash, ExecutorName, FilePath, Moment, NetworkName, SessionId, Status, TaskId, TaskResult,
    UserName,
};

/// All that a user says about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    pub user: UserName,
    /// Higher first; among equals, oldest first.
    pub priority: i32,
    pub compile: Option<CompileStep>,
    pub execute: ExecuteStep,
    /// Laid out in the workspace.
    pub source: Files,
    /// Laid out in `data/` in the workspace.
    pub data: Files,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileStep {
    pub command: Command,
    /// Its own: what the execute step finds in its environment may be no business of a build script.
    pub env: BTreeMap<String, String>,
    /// Which network it may use. Without a name there is none, where commands run in cells.
    pub network: Option<NetworkName>,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecuteStep {
    pub command: Command,
    /// Further words of the command; those of a shell text come at its end, as they are.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub input: Content,
    /// As that of a compile step.
    pub network: Option<NetworkName>,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Text for the shell.
    Shell(String),
    /// A program and its arguments, with no shell between.
    Argv(Vec<String>),
}

pub type Files = BTreeMap<FilePath, File>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub content: Content,
    pub executable: bool,
}

/// Bytes, or the name of a blob that holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Inline(Bytes),
    Blob(BlobHash),
}

/// What a step may use. `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    pub wall: Option<Duration>,
    /// Summed over all processes of the step.
    pub cpu: Option<Duration>,
    /// Bytes, summed over all processes of the step.
    pub memory: Option<u64>,
    /// Bytes on each of stdout and stderr; one more ends the step.
    pub output: Option<u64>,
    /// Processes and threads at one time.
    pub processes: Option<u32>,
    /// Bytes of the largest file that the step may write.
    pub file_size: Option<u64>,
    /// Files that a process of the step may have open at one time.
    pub open_files: Option<u32>,
    /// Bytes of each process's stack.
    pub stack: Option<u64>,
    /// Bytes of all the task's files together. They outlive a step, so the larger one of the steps' counts for both.
    pub space: Option<u64>,
}

/// A task to add. Adding the same id and spec again is adding once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    pub id: TaskId,
    pub spec: TaskSpec,
}

/// What became of an `Add`: the task as it is now, which may be further on if it was added before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    pub id: TaskId,
    pub add_time: Moment,
    pub existed: bool,
}

/// A task with everything known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    pub spec: TaskSpec,
    pub status: Status,
    pub executor: Option<ExecutorName>,
    pub session: Option<SessionId>,
    pub attempt: Attempt,
    pub add_time: Moment,
    /// When the present or last attempt was handed out.
    pub start_time: Option<Moment>,
    /// When its executor last said something new of it.
    pub report_time: Option<Moment>,
    pub finish_time: Option<Moment>,
    pub result: Option<TaskResult>,
    /// Why the platform could not run it, where that is so.
    pub trouble: Option<String>,
}

impl Content {
    pub fn empty() -> Content {
        Content::Inline(Bytes::new())
    }

    pub fn blob(&self) -> Option<BlobHash> {
        match self {
            Content::Inline(_) => None,
            Content::Blob(hash) => Some(*hash),
        }
    }

    pub fn inline_len(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blob(_) => 0,
        }
    }
}

impl Command {
    /// The command on one line, for lists and for searching.
    pub fn display(&self) -> String {
        match self {
            Command::Shell(text) => text.clone(),
            Command::Argv(words) => words.join(" "),
        }
    }
}

impl Limits {
    /// The three streams, and one more, through which a program's libraries are loaded.
    pub const LEAST_OPEN_FILES: u32 = 4;
    /// A program's arguments and its loader must find room.
    pub const LEAST_STACK: u64 = 64 << 10;
}

impl TaskSpec {
    /// What was asked for the files of the whole task.
    pub fn space(&self) -> Option<u64> {
        let compile = self.compile.as_ref().and_then(|step| step.limits.space);
        compile.max(self.execute.limits.space)
    }

    /// Every content that the task refers to.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        self.source
            .values()
            .chain(self.data.values())
            .map(|file| &file.content)
            .chain(std::iter::once(&self.execute.input))
    }

    /// The blobs that must exist for the task to run, each once.
    pub fn blobs(&self) -> Vec<BlobHash> {
        let mut blobs: Vec<_> = self.contents().filter_map(Content::blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// Every file at its place in the workspace: source as it is, data in `data/`.
    pub fn layout(&self) -> impl Iterator<Item = (String, &File)> {
        let source = self.source.iter().map(|(path, file)| (path.to_string(), file));
        let data = self
            .data
            .iter()
            .map(|(path, file)| (format!("data/{path}"), file));
        source.chain(data)
    }
}
