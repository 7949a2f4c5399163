//! `conclave add`: adds one task from flags or a file, or many from JSON Lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use api::NewTask;

use crate::args::{ClientFlags, TASK_FLAGS, TaskFlags, TaskSetFlags};
use crate::print::{OutputFormat, Stdout};
use crate::task::{self, BatchKey};

mod json_lines;
mod line_file;
mod resume_file;

/// The arguments of `conclave add`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0      all tasks were added
  1      not all tasks were added, or it is unknown; stderr says which and how to continue
  2      invalid command line
  128+N  ended by signal N; with --lines stderr says which tasks were added and how to continue")]
pub(crate) struct AddArgs {
    /// File with one task as JSON, in the form of the HTTP API; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "lines", conflicts_with_all = TASK_FLAGS)]
    file: Option<PathBuf>,
    /// File with many tasks, each as JSON on one line; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with = "id", conflicts_with_all = TASK_FLAGS)]
    lines: Option<PathBuf>,
    /// With --lines: file in which the ids of the tasks are saved before they are sent. If it exists, continue with its ids,
    /// so that no task is added twice. By default the ids are saved beside the file of --lines, with .ids after its name
    #[arg(long, value_name = "FILE", requires = "lines", conflicts_with_all = ["file", "shell", "words", "key"])]
    resume: Option<PathBuf>,
    /// With --lines: derive the ids of the tasks from this key instead of saving them. The same lines with the same key are
    /// added only once
    #[arg(long, value_name = "UUID", requires = "lines", conflicts_with_all = ["file", "shell", "words"])]
    key: Option<BatchKey>,
    #[command(flatten)]
    set: TaskSetFlags,
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl AddArgs {
    /// The source file of the program to run.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.task.program.as_deref()
    }
}

pub(crate) async fn run(args: AddArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = args.client.output_format();
    if let Some(path) = &args.lines {
        let ids = json_lines::IdSource::new(path, args.resume.as_deref(), args.key);
        return json_lines::add(path, ids, &args.set, &client, format).await;
    }
    let mut task = match &args.file {
        Some(path) => {
            let task = read_task(path)?;
            NewTask {
                id: args.task.id.or(task.id),
                ..task
            }
        }
        None => task::build(&args.task, &client).await?,
    };
    args.set.apply_to(&mut task)?;
    let task = task::add(&mut task, None, &client).await?;
    match format {
        OutputFormat::Text => Stdout::open().line(task.id)?,
        OutputFormat::Json => Stdout::open().json(&task)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read_task(path: &Path) -> Result<NewTask> {
    let mut json = Vec::new();
    let read = match path == Path::new("-") {
        true => io::stdin().lock().read_to_end(&mut json),
        false => File::open(path).and_then(|mut file| file.read_to_end(&mut json)),
    };
    read.with_context(|| format!("could not read {}", path.display()))?;
    api::parse_json(&json).map_err(|wrong| anyhow!("the task in {} is invalid: {wrong}", path.display()))
}
