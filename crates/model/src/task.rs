//! Tasks: what a user requests, and what is known about it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    AttemptNumber, AttemptRecord, BlobHash, ExecutorName, GroupKey, GroupName, Judging, KeepPattern, Labels,
    LanguageName, NetworkName, ProblemName, RootName, SessionId, TaskId, TaskResult, TaskStatus, UnixTime,
    UserName, WorkspacePath,
};

/// What a user requests of a task: commands, files, input, limits and priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    pub user: UserName,
    /// Higher first; among equals, oldest first.
    pub priority: i32,
    /// The row of the language table that fills in what a request leaves out. A stored task has what was filled in.
    pub language: Option<LanguageName>,
    /// The root file system of the cells in which the steps run; `None` is the executor's default.
    pub root: Option<RootName>,
    pub compile: Option<CompileStep>,
    pub execute: ExecuteStep,
    /// Files in the workspace.
    pub source: TaskFiles,
    /// Files in `data/` of the workspace.
    pub data: TaskFiles,
    /// The cases for which the execute step runs, and how their outputs are checked. `None` for a task that is not judged.
    pub judging: Option<Judging>,
    /// The problem by which the task is to be judged. A stored task has the cases of the problem in `judging`.
    pub problem: Option<ProblemName>,
    /// Which files of the workspace are kept when the execute step has ended.
    pub keep: Vec<KeepPattern>,
    pub labels: Labels,
    /// The set of this user's tasks that the task belongs to.
    pub group: Option<GroupName>,
    /// How many attempts may be lost before the task ends as `system_error`. In a request, `None` stands for the
    /// operator's default.
    pub attempts: Option<u32>,
    /// The task that this one repeats.
    pub retry_of: Option<TaskId>,
}

/// The optional first step of a task, which compiles the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileStep {
    pub command: StepCommand,
    /// Separate from the execute step's variables, because those may be secret from a build script.
    pub env: BTreeMap<String, String>,
    /// The network that the step may use. In a cell, `None` means no network.
    pub network: Option<NetworkName>,
    pub limits: Limits,
}

/// The step of a task that runs the user's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecuteStep {
    pub command: StepCommand,
    /// Further arguments of the command. For a shell command they are appended to its text unquoted.
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub input: Content,
    /// Like the network of a compile step.
    pub network: Option<NetworkName>,
    pub limits: Limits,
}

/// The command that a step of a task runs: a command line for the shell, or a program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepCommand {
    /// A command line for the shell.
    Shell(String),
    /// A program and its arguments, run without a shell.
    Argv(Vec<String>),
}

/// The files that a user gives a task for its steps, by their path in the workspace.
pub type TaskFiles = BTreeMap<WorkspacePath, TaskFile>;

/// A file that a user gives a task for its steps: its content, and whether it is executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    pub content: Content,
    pub executable: bool,
}

/// The content of a task's file or standard input: the bytes, or the hash of the blob that holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Inline(Bytes),
    Blob(BlobHash),
}

/// The resources that a step of a task may use: time, memory, output, processes and files. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    pub wall: Option<Duration>,
    /// CPU time of all processes of the step together.
    pub cpu: Option<Duration>,
    /// Bytes of all processes of the step together.
    pub memory: Option<u64>,
    /// Bytes on each of stdout and stderr. One byte more ends the step.
    pub output: Option<u64>,
    /// Processes and threads at one time.
    pub processes: Option<u32>,
    /// Bytes of the largest file that the step may write.
    pub file_size: Option<u64>,
    /// Files that a process of the step may have open at one time.
    pub open_files: Option<u32>,
    /// Bytes of each process's stack.
    pub stack: Option<u64>,
    /// Bytes of all files of the task together. The steps share the files, so the larger limit applies to both.
    pub space: Option<u64>,
}

/// A request to add a task, with the id under which it is stored. Adding the same id and spec again has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddTask {
    pub id: TaskId,
    /// With a language, commands may be [`StepCommand::of_language`].
    pub spec: TaskSpec,
    /// The source file [`AddTask::SOURCE_CODE`] is meant to have the language's own name.
    pub names_source_code: bool,
    /// The task is added even if no executor has its language or root.
    pub wait_for_executor: bool,
}

/// The answer to a request to add a task: its id, when it was added, and whether it existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedTask {
    pub id: TaskId,
    pub add_time: UnixTime,
    /// The task had been added before.
    pub existed: bool,
}

/// A task with everything known about it: specification, status, executor, attempts, times and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    pub spec: TaskSpec,
    pub status: TaskStatus,
    pub executor: Option<ExecutorName>,
    pub session: Option<SessionId>,
    pub attempt: AttemptNumber,
    pub add_time: UnixTime,
    /// When the current or last attempt was handed out.
    pub start_time: Option<UnixTime>,
    /// When its executor last reported a change.
    pub report_time: Option<UnixTime>,
    pub finish_time: Option<UnixTime>,
    /// The newest attempts that began, oldest first, at most [`AttemptRecord::MAX_COUNT`].
    pub ran_on: Vec<AttemptRecord>,
    pub result: Option<TaskResult>,
    /// Why the platform could not run it, if so.
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

impl AddTask {
    /// The path of a lone source file until the language gives it a name.
    pub const SOURCE_CODE: &str = "source_code";

    pub fn new(id: TaskId, spec: TaskSpec) -> AddTask {
        AddTask {
            id,
            spec,
            names_source_code: false,
            wait_for_executor: false,
        }
    }
}

impl StepCommand {
    /// Stands for the command of the task's language in a request. No other command is empty.
    pub fn of_language() -> StepCommand {
        StepCommand::Shell(String::new())
    }

    pub fn is_of_language(&self) -> bool {
        matches!(self, StepCommand::Shell(text) if text.is_empty())
    }

    /// The command on one line, for lists and searches.
    pub fn display(&self) -> String {
        match self {
            StepCommand::Shell(text) => text.clone(),
            StepCommand::Argv(words) => words.join(" "),
        }
    }
}

impl Limits {
    /// The three standard streams, and one more to load the program's libraries.
    pub const MIN_OPEN_FILES: u32 = 4;
    /// Enough for a program's arguments and its loader.
    pub const MIN_STACK: u64 = 64 << 10;
}

impl TaskSpec {
    /// A task that runs one command, without files, limits and everything else.
    pub fn new(user: UserName, command: StepCommand) -> TaskSpec {
        TaskSpec {
            user,
            priority: 0,
            language: None,
            root: None,
            compile: None,
            execute: ExecuteStep {
                command,
                args: vec![],
                env: BTreeMap::new(),
                input: Content::empty(),
                network: None,
                limits: Limits::default(),
            },
            source: TaskFiles::new(),
            data: TaskFiles::new(),
            judging: None,
            problem: None,
            keep: vec![],
            labels: Labels::default(),
            group: None,
            attempts: None,
            retry_of: None,
        }
    }

    pub fn group_key(&self) -> Option<GroupKey> {
        let group = self.group.clone()?;
        let user = self.user.clone();
        Some(GroupKey { user, group })
    }

    /// The limit on the files of the whole task.
    pub fn space(&self) -> Option<u64> {
        let compile = self.compile.as_ref().and_then(|step| step.limits.space);
        compile.max(self.execute.limits.space)
    }

    /// All contents of the task: its files, its input, and those of its cases.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        self.source
            .values()
            .chain(self.data.values())
            .map(|file| &file.content)
            .chain(std::iter::once(&self.execute.input))
            .chain(self.judging.iter().flat_map(Judging::contents))
    }

    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut Content> {
        let files = self.source.values_mut().chain(self.data.values_mut());
        files
            .map(|file| &mut file.content)
            .chain(std::iter::once(&mut self.execute.input))
            .chain(self.judging.iter_mut().flat_map(Judging::contents_mut))
    }

    /// The blobs that the task needs, each once.
    pub fn blobs(&self) -> Vec<BlobHash> {
        let mut blobs: Vec<_> = self.contents().filter_map(Content::blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// All files with their paths in the workspace: source files as they are, data files in `data/`.
    pub fn layout(&self) -> impl Iterator<Item = (String, &TaskFile)> {
        let source = self.source.iter().map(|(path, file)| (path.to_string(), file));
        let data = self
            .data
            .iter()
            .map(|(path, file)| (format!("data/{path}"), file));
        source.chain(data)
    }
}
