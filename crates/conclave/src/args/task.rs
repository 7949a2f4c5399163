//! Flags that describe a task.

use std::path::PathBuf;

use api::{Size, Span};
use clap::Args;
use model::{Command, NetworkName, TaskId, UserName};

use super::name::{network_name, task_id, user_name};

/// The names of all flags below but `id`: beside a task in a file they would say nothing.
pub(crate) const TASK_FLAGS: [&str; 30] = [
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
];

#[derive(Args, Debug)]
pub(crate) struct TaskFlags {
    /// Source file, or folder whose content is laid out where the commands run; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) source: Vec<PathBuf>,
    /// Data file, or folder whose content is laid out in data/; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Vec<PathBuf>,
    /// Command that compiles the source first, for the shell
    #[arg(long, value_name = "TEXT")]
    pub(crate) compile: Option<String>,
    /// Variable in the environment of the command that compiles; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, requires = "compile")]
    pub(crate) compile_env: Vec<(String, String)>,
    /// Network that the compile command may use
    #[arg(long, value_name = "NAME", value_parser = network_name, requires = "compile")]
    pub(crate) compile_network: Option<NetworkName>,
    /// Command to run, as text for the shell; what follows `--` is added as further words at its end
    #[arg(long, value_name = "TEXT")]
    pub(crate) shell: Option<String>,
    /// Standard input: a file, or - for this command's own
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Variable in the command's environment, not in that of --compile; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Network that the command may use, by the name that the executors have for it
    #[arg(long, value_name = "NAME", value_parser = network_name)]
    pub(crate) network: Option<NetworkName>,
    /// Who owns the task
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub(crate) user: Option<UserName>,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub(crate) priority: i32,
    /// Id of the task, so that adding twice is adding once
    #[arg(long, value_name = "UUID", value_parser = task_id)]
    pub(crate) id: Option<TaskId>,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    #[command(flatten)]
    pub(crate) compile_limits: CompileLimitFlags,
    /// Program to run and its arguments, with no shell between
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&str>)]
    pub(crate) words: Vec<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Limits of the command")]
pub(crate) struct LimitFlags {
    /// Time on the clock, like 10s
    #[arg(long, value_name = "TIME")]
    wall: Option<Span>,
    /// CPU time of all its processes, like 2s
    #[arg(long, value_name = "TIME")]
    cpu: Option<Span>,
    /// Memory of all its processes, like 256MiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Bytes on each of stdout and stderr, like 1MiB
    #[arg(long, value_name = "SIZE")]
    output: Option<Size>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N")]
    processes: Option<u32>,
    /// Size of the largest file that it may write, like 16MiB
    #[arg(long, value_name = "SIZE")]
    file_size: Option<Size>,
    /// Files that a process may have open at one time
    #[arg(long, value_name = "N")]
    open_files: Option<u32>,
    /// Stack of each process, like 8MiB
    #[arg(long, value_name = "SIZE")]
    stack: Option<Size>,
    /// Size of all files together, like 256MiB
    #[arg(long, value_name = "SIZE")]
    space: Option<Size>,
}

/// The same for the compile command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits of the compile command")]
pub(crate) struct CompileLimitFlags {
    /// Time on the clock
    #[arg(long, value_name = "TIME", requires = "compile")]
    compile_wall: Option<Span>,
    /// CPU time of all its processes
    #[arg(long, value_name = "TIME", requires = "compile")]
    compile_cpu: Option<Span>,
    /// Memory of all its processes
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_memory: Option<Size>,
    /// Bytes on each of stdout and stderr
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_output: Option<Size>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N", requires = "compile")]
    compile_processes: Option<u32>,
    /// Size of the largest file that it may write
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_file_size: Option<Size>,
    /// Files that a process may have open at one time
    #[arg(long, value_name = "N", requires = "compile")]
    compile_open_files: Option<u32>,
    /// Stack of each process
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_stack: Option<Size>,
    /// Size of all files together; the larger one of this and --space counts for both commands
    #[arg(long, value_name = "SIZE", requires = "compile")]
    compile_space: Option<Size>,
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
    /// What to run and with which arguments; `None` if the flags do not say.
    pub(crate) fn command(&self) -> Option<(Command, Vec<String>)> {
        match &self.shell {
            Some(text) => Some((Command::Shell(text.clone()), self.words.clone())),
            None if self.words.is_empty() => None,
            None => Some((Command::Argv(self.words.clone()), Vec::new())),
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err("write it like NAME=VALUE".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_task_is_in_the_list() {
        let command = TaskFlags::augment_args(clap::Command::new("add"));
        let names = command.get_arguments().map(|flag| flag.get_id().as_str());
        let mut missing: Vec<_> = names.filter(|name| !TASK_FLAGS.contains(name)).collect();
        missing.sort_unstable();
        assert_eq!(missing, ["id"]);
    }
}
