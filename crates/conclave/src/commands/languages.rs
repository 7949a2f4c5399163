//! `conclave languages`: lists languages with the executors that have them, and checks them.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::{ExecutorState, HttpClient, Language, NewTask, Task};
use futures::StreamExt;
use model::{Content, LanguageExample, RootName, StepCommand, TaskStatus};
use serde::Serialize;

use crate::args::ClientFlags;
use crate::print::{OutputFormat, Stdout, TextTable, print_message};
use crate::task;

/// The arguments of `conclave languages`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0  all languages are listed, or with --check all work
  1  a language does not work, or another error
  2  invalid command line")]
pub(crate) struct LanguagesArgs {
    /// List also the languages that no executor has
    #[arg(long)]
    all: bool,
    /// Compile and run the example of each language that an executor has
    #[arg(long, conflicts_with = "all")]
    check: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// How many examples run at the same time. Compilers use much memory.
const CHECKS_AT_ONCE: usize = 2;
/// How long one request waits for an example to end.
const WAIT: Duration = Duration::from_secs(30);

/// The end of a language's example: a line of `conclave languages --check`.
#[derive(Serialize)]
struct LanguageCheck {
    name: String,
    title: String,
    works: bool,
    /// Why it does not work.
    problem: Option<String>,
    compile_seconds: Option<f64>,
    run_seconds: Option<f64>,
    memory_bytes: Option<u64>,
    executor: Option<String>,
}

pub(crate) async fn run(args: LanguagesArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let languages = client.languages().await?;
    let format = args.client.output_format();
    match args.check {
        true => check(languages, &client, format).await,
        false => list(&args, languages, &client, format).await,
    }
}

async fn list(
    args: &LanguagesArgs,
    languages: Vec<Language>,
    client: &HttpClient,
    format: OutputFormat,
) -> Result<ExitCode> {
    let total = languages.len();
    let is_listed = |language: &Language| args.all || language.executors > 0;
    let languages: Vec<_> = languages.into_iter().filter(is_listed).collect();
    let mut out = Stdout::open();
    match format {
        OutputFormat::Json => out.json_lines(&languages)?,
        OutputFormat::Text => {
            let executors = client.executors().await?;
            let mut table = TextTable::new(["NAME", "TITLE", "ROOT", "ALIASES", "VERSIONS"]);
            for language in &languages {
                let aliases: Vec<_> = language.aliases.iter().map(ToString::to_string).collect();
                table.row([
                    language.name.to_string(),
                    language.title.clone(),
                    language.root.as_ref().map_or("-", RootName::as_str).to_string(),
                    aliases.join(" "),
                    versions_by_executor(language, &executors),
                ]);
            }
            out.text(table)?;
            let others = total - languages.len();
            if others > 0 {
                print_message(format!(
                    "no executor has {others} more languages of the table; --all lists them"
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn versions_by_executor(language: &Language, executors: &[ExecutorState]) -> String {
    match language.versions_by_executor(executors) {
        versions if versions.is_empty() => "-".to_string(),
        versions => versions,
    }
}

async fn check(languages: Vec<Language>, client: &HttpClient, format: OutputFormat) -> Result<ExitCode> {
    let installed = languages.into_iter().filter(|language| language.executors > 0);
    let checks = futures::stream::iter(installed.map(|language| check_language(language, client)));
    let checks: Vec<LanguageCheck> = checks.buffered(CHECKS_AT_ONCE).collect().await;
    let mut out = Stdout::open();
    match format {
        OutputFormat::Json => out.json_lines(&checks)?,
        OutputFormat::Text => out.text(check_table(&checks))?,
    }
    let failed = checks.iter().filter(|check| !check.works).count();
    if failed > 0 {
        print_message(format!("{failed} of {} languages do not work", checks.len()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn check_table(checks: &[LanguageCheck]) -> TextTable {
    let mut table = TextTable::new(["NAME", "TITLE", "RESULT", "COMPILE", "RUN", "MEMORY", "EXECUTOR"])
        .right_align([3, 4, 5]);
    for check in checks {
        let seconds =
            |seconds: Option<f64>| seconds.map_or("-".to_string(), |seconds| format!("{seconds:.2}s"));
        let memory = check
            .memory_bytes
            .map_or("-".to_string(), |bytes| format!("{}MiB", bytes >> 20));
        table.row([
            check.name.clone(),
            check.title.clone(),
            check.problem.clone().unwrap_or_else(|| "ok".to_string()),
            seconds(check.compile_seconds),
            seconds(check.run_seconds),
            memory,
            check.executor.clone().unwrap_or_else(|| "-".to_string()),
        ]);
    }
    table
}

async fn check_language(language: Language, client: &HttpClient) -> LanguageCheck {
    let ended = run_example(&language, client).await;
    let (task, problem) = match ended {
        Ok(task) => {
            let problem = problem_of(&task, &language.example_output);
            (Some(task), problem)
        }
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let result = task.as_ref().and_then(|task| task.result.as_ref());
    let compile = result.and_then(|result| result.compile.as_ref());
    let execute = result.and_then(|result| result.execute.as_ref());
    let executor = task.as_ref().and_then(|task| task.ran_on.last());
    LanguageCheck {
        name: language.name.to_string(),
        title: language.title,
        works: problem.is_none(),
        problem,
        compile_seconds: compile.map(|outcome| outcome.wall_seconds),
        run_seconds: execute.map(|outcome| outcome.wall_seconds),
        memory_bytes: execute.map(|outcome| outcome.memory_bytes),
        executor: executor.map(|record| record.executor.to_string()),
    }
}

async fn run_example(language: &Language, client: &HttpClient) -> Result<Task> {
    let mut new = NewTask::new(StepCommand::of_language());
    new.language = Some(language.name.clone());
    new.source_code = Some(Content::Inline(language.example.clone().into()));
    new.execute.input = Content::Inline(LanguageExample::INPUT.into());
    let mut task = task::add(&mut new, Some(WAIT), client).await?;
    while !task.done {
        task = client.get(task.id, Some(WAIT)).await?;
    }
    Ok(task)
}

/// Why the example does not work, in a few words.
fn problem_of(task: &Task, expected: &str) -> Option<String> {
    let result = task.result.as_ref();
    let execute = result.and_then(|result| result.execute.as_ref());
    let compile = result.and_then(|result| result.compile.as_ref());
    if task.status != TaskStatus::Success {
        let last = execute.or(compile);
        let reason = last.map(|outcome| format!(" ({})", outcome.reason));
        let stderr = last.and_then(|outcome| outcome.stderr.lines().find(|line| !line.trim().is_empty()));
        let detail = task.trouble.as_deref().or(stderr).map(|line| format!(": {line}"));
        return Some(format!(
            "{}{}{}",
            task.status,
            reason.unwrap_or_default(),
            detail.unwrap_or_default()
        ));
    }
    let stdout = execute.map_or("", |outcome| outcome.stdout.as_str());
    (stdout != expected).then(|| format!("printed {stdout:?} instead of {expected:?}"))
}
