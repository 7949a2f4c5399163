//! `conclave add`: one task from flags or a file, or many from JSON lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use api::NewTask;

use crate::args::{ClientFlags, TaskFlags};
use crate::print::{Form, Out};
use crate::task::{self, BatchKey};

mod lines;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0      everything was added
  1      not everything was added, or it is not known; stderr says what is known and how to go on
  2      the command line cannot be understood
  128+N  signal N ended it; with --lines stderr says what is known and how to go on")]
pub(crate) struct Args {
    /// Task as JSON, as the HTTP API takes it; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lines", "shell", "words", "source", "data", "compile", "input", "env", "network", "user", "priority"])]
    file: Option<PathBuf>,
    /// Many tasks, each as JSON on one line; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shell", "words", "source", "data", "compile", "input", "env", "network", "user", "priority", "id"])]
    lines: Option<PathBuf>,
    /// Key from which the ids of --lines follow: the same lines with the same key are added once, however often they
    /// are sent. Left out, one is made; it is printed when something goes wrong
    #[arg(long, value_name = "UUID", requires = "lines", conflicts_with_all = ["file", "shell", "words"])]
    key: Option<BatchKey>,
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let form = args.client.form();
    if let Some(path) = &args.lines {
        let key = args.key.unwrap_or_else(BatchKey::generate);
        return lines::add(open(path)?, path, key, &client, form).await;
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
    match form {
        Form::People => Out::open().line(task.id)?,
        Form::Json => Out::open().json(&task)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read_task(path: &Path) -> Result<NewTask> {
    let mut json = Vec::new();
    open(path)?
        .read_to_end(&mut json)
        .with_context(|| format!("could not read {}", path.display()))?;
    api::parse(&json).map_err(|wrong| anyhow!("the task in {} is wrong: {wrong}", path.display()))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
