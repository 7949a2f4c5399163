//! Builds the task that the flags describe, and uploads its large files as blobs.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use api::{CompileStep, FilesOrZip, HttpClient, NewTask};
use model::{Content, LanguageName, StepCommand, TaskFile, WorkspacePath};

use super::blobs;
use super::collect::{LocalFile, collect};
use crate::args::TaskFlags;

/// Larger files are uploaded as blobs, which are sent once for any number of tasks.
const MAX_INLINE_FILE: u64 = 32 << 10;
const MAX_INLINE_TOTAL: u64 = 2 << 20;

/// What is read of standard input, which may be endless.
const MAX_STDIN_BYTES: u64 = 1 << 30;

pub(crate) async fn build(flags: &TaskFlags, client: &HttpClient) -> Result<NewTask> {
    let (command, args) = flags.command().ok_or_else(|| {
        anyhow!(
            "there is no command to run; give it after `--`, or as a shell command with --shell, or give a source file"
        )
    })?;
    let mut budget = InlineBudget(MAX_INLINE_TOTAL);
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
            false => task.source_code = Some(program_content(program, &mut budget, client).await?),
        }
    }
    task.source = files(source, &mut budget, client).await?;
    task.data = files(collect(&flags.data)?, &mut budget, client).await?;
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
    let has = |language: &&api::Language| language.extensions.iter().any(|own| own == extension);
    // Another one may have the extension, too, and be there.
    let installed = languages
        .iter()
        .filter(|language| language.executors > 0)
        .find(has);
    let found = installed.or_else(|| languages.iter().find(has));
    found.map(|language| language.name.clone()).with_context(|| {
        format!(
            "no language has the extension .{extension}; name one with --language (see conclave languages)"
        )
    })
}

async fn program_content(program: &Path, budget: &mut InlineBudget, client: &HttpClient) -> Result<Content> {
    let metadata = std::fs::metadata(program);
    let size = metadata
        .with_context(|| format!("could not read {}", program.display()))?
        .len();
    content(program, size, budget, client).await
}

/// How many bytes of file content a new task may still carry inline; other files are uploaded as blobs.
struct InlineBudget(u64);

impl InlineBudget {
    fn take_if_fits(&mut self, size: u64) -> bool {
        let fits = size <= MAX_INLINE_FILE && size <= self.0;
        if fits {
            self.0 -= size;
        }
        fits
    }
}

async fn files(
    found: BTreeMap<WorkspacePath, LocalFile>,
    budget: &mut InlineBudget,
    client: &HttpClient,
) -> Result<FilesOrZip> {
    let mut files = model::TaskFiles::new();
    for (path, file) in found {
        let content = content(&file.path, file.size, budget, client).await?;
        files.insert(
            path,
            TaskFile {
                content,
                executable: file.executable,
            },
        );
    }
    Ok(files.into())
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

async fn content(path: &Path, size: u64, budget: &mut InlineBudget, client: &HttpClient) -> Result<Content> {
    if budget.take_if_fits(size) {
        let bytes = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        return Ok(Content::Inline(bytes.into()));
    }
    Ok(Content::Blob(blobs::upload_if_missing(path, client).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_up_to_a_total_are_inline() {
        let mut budget = InlineBudget(MAX_INLINE_TOTAL);
        assert!(budget.take_if_fits(0));
        assert!(!budget.take_if_fits(MAX_INLINE_FILE + 1));
        let taken = (0..1000)
            .take_while(|_| budget.take_if_fits(MAX_INLINE_FILE))
            .count() as u64;
        assert_eq!(taken, MAX_INLINE_TOTAL / MAX_INLINE_FILE);
        assert!(!budget.take_if_fits(1));
    }
}
