//! Builds the task that the flags describe, and uploads its large files as blobs.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use api::{CompileStep, HttpClient, NewTask};
use model::{Content, LanguageName, StepCommand};

use super::collect::collect;
use super::content::{InlineBudget, content, content_of_file};
use super::program::{files, language_by_extension};
use crate::args::TaskFlags;

/// What is read of standard input, which may be endless.
const MAX_STDIN_BYTES: u64 = 1 << 30;

pub(crate) async fn build(flags: &TaskFlags, client: &HttpClient) -> Result<NewTask> {
    let (command, args) = flags.command().ok_or_else(|| {
        anyhow!(
            "there is no command to run; give it after `--`, or as a shell command with --shell, or give a source file"
        )
    })?;
    let mut budget = InlineBudget::of_task();
    let mut task = NewTask::new(command);
    task.language = flags.language.clone();
    task.root = flags.root.clone();
    task.wait_for_executor = flags.wait_for_executor;
    task.id = flags.id;
    task.user = flags.user.clone();
    task.priority = flags.priority;
    let mut source = collect(&flags.source)?;
    if let Some(program) = &flags.program {
        if task.language.is_none() {
            task.language = Some(language_of(program, client).await?);
        }
        // Among other files, only its place as source_code tells that the program begins with it.
        match source.is_empty() {
            true => source = collect(std::slice::from_ref(program))?,
            false => task.source_code = Some(content_of_file(program, &mut budget, client).await?),
        }
    }
    task.source = files(source, &mut budget, client).await?.into();
    task.data = files(collect(&flags.data)?, &mut budget, client).await?.into();
    task.compile = flags.compile.clone().map(|text| CompileStep {
        command: StepCommand::Shell(text),
        env: flags.compile_env.iter().cloned().collect(),
        network: flags.compile_network.clone(),
        limits: flags.compile_limits.limits(),
    });
    task.execute.args = args;
    task.execute.env = flags.env.iter().cloned().collect();
    task.execute.network = flags.network.clone();
    task.execute.limits = flags.limits.limits();
    if let Some(path) = &flags.input {
        task.execute.input = input(path, &mut budget, client).await?;
    }
    flags.judging.apply_to(&mut task, client).await?;
    Ok(task)
}

/// The language whose programs have this file's extension.
async fn language_of(program: &Path, client: &HttpClient) -> Result<LanguageName> {
    let name = program.display();
    ensure!(
        program.exists(),
        "there is no file {name}; to run a command, put `--` before it: conclave run -- {name}"
    );
    let extension = program.extension().and_then(|extension| extension.to_str());
    let extension = extension.with_context(|| {
        format!("{name} has no extension that tells its language; name it with --language (see conclave languages)")
    })?;
    let languages = client.languages().await?;
    language_by_extension(&languages, extension).with_context(|| {
        format!(
            "no language has the extension .{extension}; name one with --language (see conclave languages)"
        )
    })
}

async fn input(path: &Path, budget: &mut InlineBudget, client: &HttpClient) -> Result<Content> {
    if path != Path::new("-") {
        let size = std::fs::metadata(path)
            .with_context(|| format!("could not read the metadata of the input {}", path.display()))?
            .len();
        return content(path, size, budget, client).await;
    }
    // The size of stdin is unknown until its end, and it may exceed the memory, so it goes to a temporary file first. The file
    // has no name, so that nothing is left of it when this process is killed.
    let mut file = tempfile::tempfile().context("could not create a temporary file for the input")?;
    let size = io::copy(&mut io::stdin().lock().take(MAX_STDIN_BYTES + 1), &mut file)
        .context("could not read the input from stdin")?;
    ensure!(
        size <= MAX_STDIN_BYTES,
        "standard input is longer than 1 GiB; write it to a file and use --input FILE"
    );
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    content(Path::new(&path), size, budget, client).await
}
