//! `conclave add`: adds one task from flags or a file, or many from JSON Lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use api::NewTask;

use crate::args::{ClientFlags, TASK_FLAGS, TaskFlags};
use crate::print::{OutputFormat, Stdout};
use crate::task::{self, BatchKey};

mod json_lines;

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
    /// Key from which the ids of the tasks of --lines are derived: the same lines with the same key are added only once.
    /// Without this flag a key is generated, and printed if the command fails
    #[arg(long, value_name = "UUID", requires = "lines", conflicts_with_all = ["file", "shell", "words"])]
    key: Option<BatchKey>,
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: AddArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = args.client.output_format();
    if let Some(path) = &args.lines {
        let key = args.key.unwrap_or_else(BatchKey::generate);
        return json_lines::add(open(path)?, path, key, &client, format).await;
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
    let task = task::add(&mut task, None, &client).await?;
    match format {
        OutputFormat::Text => Stdout::open().line(task.id)?,
        OutputFormat::Json => Stdout::open().json(&task)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read_task(path: &Path) -> Result<NewTask> {
    let mut json = Vec::new();
    open(path)?
        .read_to_end(&mut json)
        .with_context(|| format!("could not read {}", path.display()))?;
    api::parse_json(&json).map_err(|wrong| anyhow!("the task in {} is invalid: {wrong}", path.display()))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
