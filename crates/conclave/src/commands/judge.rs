//! `conclave judge`: judges submissions by a problem or by a folder with cases, and prints the table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use api::{HttpClient, HumanDuration, Language, NewTask};
use clap::ArgGroup;
use model::{GroupName, LanguageName, RootName, StepCommand, UserName};

use crate::args::{ClientFlags, JudgingFlags, LimitFlags, group_name, language_name, root_name, user_name};
use crate::judge::{SubmissionGroup, SubmissionRow, TableFlags, print_table, submission_label};
use crate::print::print_message;
use crate::task::{InlineBudget, LocalProgram};

/// The arguments of `conclave judge`.
#[derive(clap::Args, Debug)]
#[command(
    group = ArgGroup::new("cases_of").args(["problem", "cases"]).required(true),
    after_help = "\
Exit codes:
  0      all submissions were judged, whatever their verdicts
  1      a submission could not be judged; the table says why
  124    not all were judged within the time of --wait; the rest was cancelled
  125    conclave itself failed: invalid input, or no response from the server
  130    ended by Ctrl-C; what was not judged was cancelled
  2      invalid command line"
)]
pub(crate) struct JudgeArgs {
    /// Submissions: a source file, or a folder with the files of one program
    #[arg(value_name = "SUBMISSION", required = true)]
    submissions: Vec<PathBuf>,
    #[command(flatten)]
    judging: JudgingFlags,
    /// Language of all submissions; by default that of their extensions
    #[arg(long, value_name = "NAME", value_parser = language_name)]
    language: Option<LanguageName>,
    /// Root file system in which they are compiled and run
    #[arg(long, value_name = "NAME", value_parser = root_name)]
    root: Option<RootName>,
    /// User who owns the tasks
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    user: Option<UserName>,
    /// Group of the tasks; by default a new one
    #[arg(long, value_name = "NAME", value_parser = group_name)]
    group: Option<GroupName>,
    /// Priority; higher numbers run first
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    priority: i32,
    /// Wait this long at most until all are judged
    #[arg(long, value_name = "TIME", default_value = "1h")]
    wait: HumanDuration,
    #[command(flatten)]
    table: TableFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: JudgeArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let languages = client.languages().await?;
    let mut base = NewTask::new(StepCommand::of_language());
    base.root.clone_from(&args.root);
    base.priority = args.priority;
    base.execute.limits = args.limits.limits();
    args.judging.apply_to(&mut base, &client).await?;
    let mut tasks = Vec::new();
    for path in &args.submissions {
        tasks.push(submission(path, &args, base.clone(), (&languages, &client)).await?);
    }
    let group = match &args.group {
        Some(group) => group.clone(),
        None => SubmissionGroup::unique_name("judge")?,
    };
    print_message(format_args!("group {group}"));
    let HumanDuration(wait) = args.wait;
    let group = SubmissionGroup::new(group, wait, &client).owned_by(args.user.clone());
    let runs = match group.run(tasks).await {
        Ok(runs) => runs,
        Err(failure) => return failure.into_exit_code(),
    };
    let names = args.submissions.iter().map(|path| path.display().to_string());
    let rows: Vec<_> = names
        .zip(&runs)
        .map(|(name, run)| SubmissionRow::new(name, run))
        .collect();
    let title = match &args.judging.problem {
        Some(problem) => problem.to_string(),
        None => "Submissions".to_string(),
    };
    print_table(&title, &rows, args.table, args.client.output_format())?;
    Ok(match rows.iter().all(SubmissionRow::is_judged) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn submission(
    path: &Path,
    args: &JudgeArgs,
    mut task: NewTask,
    (languages, client): (&[Language], &HttpClient),
) -> Result<NewTask> {
    ensure!(path.exists(), "there is no file or folder {}", path.display());
    let program = LocalProgram::find(path, args.language.as_ref(), languages)?;
    task.language = Some(program.language.clone());
    task.source = program.upload(InlineBudget::of_task(), client).await?.into();
    task.labels = submission_label(&path.display().to_string())?;
    Ok(task)
}
