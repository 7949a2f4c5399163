//! Flags that describe a task.

use std::path::PathBuf;

use api::{ByteSize, HumanDuration};
use clap::Args;
use model::{ExecutorName, LanguageName, NameError, NetworkName, RootName, StepCommand, TaskId, UserName};

use super::JudgingFlags;

/// The names of all flags of [`TaskFlags`] except `id`. They conflict with a task that is read from a file.
pub(crate) const TASK_FLAGS: [&str; 43] = [
    "program",
    "language",
    "root",
    "wait_for_executor",
    "source",
    "data",
    "compile",
    "compile_env",
    "compile_network",
    "shell",
    "input",
    "env",
    "network",
    "user",
    "priority",
    "words",
    "wall",
    "cpu",
    "memory",
    "output",
    "processes",
    "file_size",
    "open_files",
    "stack",
    "space",
    "compile_wall",
    "compile_cpu",
    "compile_memory",
    "compile_output",
    "compile_processes",
    "compile_file_size",
    "compile_open_files",
    "compile_stack",
    "compile_space",
    "problem",
    "cases",
    "check",
    "float_tolerance",
    "checker",
    "interactor",
    "protocol",
    "judge_args",
    "stop",
];

/// Flags of `run` and `add` that describe one task.
#[derive(Args, Debug)]
pub(crate) struct TaskFlags {
    /// Source file of a program to compile and run; its extension tells the language. The words after `--` are its arguments
    #[arg(value_name = "FILE", help_heading = None::<&str>, conflicts_with = "shell")]
    pub(crate) program: Option<PathBuf>,
    /// Language of the program, by a name or alias of `conclave languages`; it fills in the commands
    #[arg(long, value_name = "NAME", value_parser = language_name)]
    pub(crate) language: Option<LanguageName>,
    /// Root file system that the commands see, by its name on the executors
    #[arg(long, value_name = "NAME", value_parser = root_name)]
    pub(crate) root: Option<RootName>,
    /// Add the task even if no executor has its language or root now; it waits for one
    #[arg(long)]
    pub(crate) wait_for_executor: bool,
    /// Source file, or folder whose content is copied to the working directory of the commands; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) source: Vec<PathBuf>,
    /// Data file, or folder whose content is copied to data/; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Vec<PathBuf>,
    /// Shell command that compiles the source first
    #[arg(long, value_name = "TEXT")]
    pub(crate) compile: Option<String>,
    /// Environment variable of the compile command; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable, requires = "compile")]
    pub(crate) compile_env: Vec<(String, String)>,
    /// Network that the compile command may use
    #[arg(long, value_name = "NAME", value_parser = network_name, requires = "compile")]
    pub(crate) compile_network: Option<NetworkName>,
    /// Shell command to run; the words after `--` are appended to it
    #[arg(long, value_name = "TEXT")]
    pub(crate) shell: Option<String>,
    /// File for standard input, or - to read it from this command's stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Environment variable of the command, but not of the compile command; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Network that the command may use, by its name in the configuration of the executors
    #[arg(long, value_name = "NAME", value_parser = network_name)]
    pub(crate) network: Option<NetworkName>,
    /// User who owns the task
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub(crate) user: Option<UserName>,
    /// Priority; higher numbers run first
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub(crate) priority: i32,
    /// Id of the task; adding the same task again with this id has no effect
    #[arg(long, value_name = "UUID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    #[command(flatten)]
    pub(crate) compile_limits: CompileLimitFlags,
    #[command(flatten)]
    pub(crate) judging: JudgingFlags,
    /// Program to run and its arguments, without a shell
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&str>)]
    pub(crate) words: Vec<String>,
}

/// Flags that set the limits of the execute step.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits of the command")]
pub(crate) struct LimitFlags {
    /// Wall-clock time, like 10s
    #[arg(long, value_name = "TIME")]
    wall: Option<HumanDuration>,
    /// CPU time of all its processes together, like 2s
    #[arg(long, value_name = "TIME")]
    cpu: Option<HumanDuration>,
    /// Memory of all its processes together, like 256MiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Size of stdout and of stderr, like 1MiB
    #[arg(long, value_name = "SIZE")]
    output: Option<ByteSize>,
    /// Number of processes and threads at the same time
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    /// Size of each file that it writes, like 16MiB
    #[arg(long, value_name = "SIZE")]
    file_size: Option<ByteSize>,
    /// Number of open files of each process
    #[arg(long, value_name = "N")]
    open_files: Option<u32>,
    /// Stack size of each process, like 8MiB
    #[arg(long, value_name = "SIZE")]
    stack: Option<ByteSize>,
    /// Size of all files of the task together, like 256MiB
    #[arg(long, value_name = "SIZE")]
    space: Option<ByteSize>,
}

/// Flags that set the limits of the compile step.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits of the compile command")]
pub(crate) struct CompileLimitFlags {
    /// Wall-clock time
    #[arg(long, value_name = "TIME", requires = "compile")]
    compile_wall: Option<HumanDuration>,
    /// CPU time of all its processes together
    #[arg(long, value_name = "TIME", requires = "compile")]
    compile_cpu: Option<HumanDuration>,
    /// Memory of all its processes together
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_memory: Option<ByteSize>,
    /// Size of stdout and of stderr
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_output: Option<ByteSize>,
    /// Number of processes and threads at the same time
    #[arg(long, value_name = "N", requires = "compile")]
    compile_processes: Option<u32>,
    /// Size of each file that it writes
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_file_size: Option<ByteSize>,
    /// Number of open files of each process
    #[arg(long, value_name = "N", requires = "compile")]
    compile_open_files: Option<u32>,
    /// Stack size of each process
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_stack: Option<ByteSize>,
    /// Size of all files of the task together; the larger one of this and --space applies to both commands
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_space: Option<ByteSize>,
}

impl CompileLimitFlags {
    pub(crate) fn limits(&self) -> api::Limits {
        api::Limits {
            wall: self.compile_wall,
            cpu: self.compile_cpu,
            memory: self.compile_memory,
            output: self.compile_output,
            processes: self.compile_processes,
            file_size: self.compile_file_size,
            open_files: self.compile_open_files,
            stack: self.compile_stack,
            space: self.compile_space,
        }
    }
}

impl LimitFlags {
    pub(crate) fn limits(&self) -> api::Limits {
        api::Limits {
            wall: self.wall,
            cpu: self.cpu,
            memory: self.memory,
            output: self.output,
            processes: self.processes,
            file_size: self.file_size,
            open_files: self.open_files,
            stack: self.stack,
            space: self.space,
        }
    }
}

impl TaskFlags {
    /// The command and its additional arguments; `None` if the flags name no command.
    pub(crate) fn command(&self) -> Option<(StepCommand, Vec<String>)> {
        if self.program.is_some() {
            return Some((StepCommand::of_language(), self.words.clone()));
        }
        match &self.shell {
            Some(text) => Some((StepCommand::Shell(text.clone()), self.words.clone())),
            None if self.words.is_empty() => {
                let language = self.language.as_ref();
                language.map(|_| (StepCommand::of_language(), Vec::new()))
            }
            None => Some((StepCommand::Argv(self.words.clone()), Vec::new())),
        }
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("write it like NAME=VALUE".to_string()),
    }
}

// Value parsers, which check a name before it is sent to a server.

fn task_id(text: &str) -> Result<TaskId, NameError> {
    text.parse()
}

pub(crate) fn user_name(text: &str) -> Result<UserName, NameError> {
    UserName::new(text)
}

pub(crate) fn language_name(text: &str) -> Result<LanguageName, NameError> {
    LanguageName::new(text)
}

pub(crate) fn root_name(text: &str) -> Result<RootName, NameError> {
    RootName::new(text)
}

fn network_name(text: &str) -> Result<NetworkName, NameError> {
    NetworkName::new(text)
}

pub(crate) fn executor_name(text: &str) -> Result<ExecutorName, NameError> {
    ExecutorName::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_task_flag_except_id() {
        let command = TaskFlags::augment_args(clap::Command::new("add"));
        let names = command.get_arguments().map(|flag| flag.get_id().as_str());
        let mut missing: Vec<_> = names.filter(|name| !TASK_FLAGS.contains(name)).collect();
        missing.sort_unstable();
        assert_eq!(missing, ["id"]);
    }
}
