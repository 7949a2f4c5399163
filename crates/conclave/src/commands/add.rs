//! `conclave add`: one task from flags or a file, or many from JSON lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use api::{Brief, Client, NewTask};
use model::TaskId;

use crate::args::{ClientFlags, TaskFlags};
use crate::print::{Form, Out};
use crate::task;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Task as JSON, as the HTTP API takes it; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lines", "shell", "words", "source", "data", "compile", "input"])]
    file: Option<PathBuf>,
    /// Many tasks, each as JSON on one line; - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shell", "words", "source", "data", "compile", "input"])]
    lines: Option<PathBuf>,
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    client: ClientFlags,
}

/// Tasks for each call. Each call is added in full or not at all.
const BATCH: usize = 500;

/// Bytes of lines for each call, well below what a gateway takes.
const BATCH_BYTES: usize = 4 << 20;

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    match &args.lines {
        Some(path) => add_lines(path, &client, args.client.form()).await?,
        None => {
            let mut task = match &args.file {
                Some(path) => read_task(path)?,
                None => task::build(&args.task, &client).await?,
            };
            let task = task::add(&mut task, None, &client).await?;
            match args.client.form() {
                Form::People => Out::open().line(task.id)?,
                Form::Json => Out::open().json(&task)?,
            }
        }
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

async fn add_lines(path: &Path, client: &Client, form: Form) -> Result<()> {
    let mut out = Out::open();
    let (mut tasks, mut bytes, mut added) = (Vec::new(), 0, 0);
    for (number, line) in open(path)?.lines().enumerate() {
        let line = line.with_context(|| format!("could not read {}", path.display()))?;
        if line.trim().is_empty() {
            continue;
        }
        let mut task: NewTask = api::parse(line.as_bytes()).map_err(|wrong| {
            anyhow!(
                "line {} of {} is wrong: {wrong}; {added} tasks of earlier lines were added",
                number + 1,
                path.display()
            )
        })?;
        task.id.get_or_insert_with(TaskId::generate);
        bytes += line.len();
        tasks.push(task);
        if tasks.len() == BATCH || bytes >= BATCH_BYTES {
            added += add_batch(std::mem::take(&mut tasks), client, form, &mut out)
                .await
                .with_context(|| format!("{added} tasks of earlier lines were added, then"))?;
            bytes = 0;
        }
    }
    if !tasks.is_empty() {
        add_batch(tasks, client, form, &mut out)
            .await
            .with_context(|| format!("{added} tasks of earlier lines were added, then"))?;
    }
    Ok(())
}

async fn add_batch(tasks: Vec<NewTask>, client: &Client, form: Form, out: &mut Out) -> Result<usize> {
    let added: Vec<Brief> = client.add_many(tasks).await?;
    for task in &added {
        match form {
            Form::People => out.line(task.id)?,
            Form::Json => out.json_line(task)?,
        }
    }
    Ok(added.len())
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
