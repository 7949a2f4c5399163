//! `conclave problem import`: keeps a package on a server under a name.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use api::HumanDuration;
use model::ProblemName;

use super::time_limit::TimeLimit;
use super::{case_count, positive_time, read_package};
use crate::args::{ClientFlags, problem_name};
use crate::judge::{PackageTasks, SubmissionGroup};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave problem import`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0      the problem is kept under its name
  1      it is not: the package or the request is invalid, or the server did not respond
  124    the time limit could not be measured within the time of --wait
  130    ended by Ctrl-C
  2      invalid command line")]
pub(super) struct ImportProblemArgs {
    /// Folder of the package
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Name of the problem; by default that of the folder. A problem of yours with this name is replaced
    #[arg(long, value_name = "NAME", value_parser = problem_name)]
    name: Option<ProblemName>,
    /// CPU time limit, if it is not that of the package
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    time_limit: Option<HumanDuration>,
    /// If the package has no time limit: wait this long at most for the submissions from which it follows
    #[arg(long, value_name = "TIME", default_value = "1h")]
    wait: HumanDuration,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

pub(super) async fn run(args: ImportProblemArgs) -> Result<ExitCode> {
    let package = read_package(&args.folder)?;
    let name = match args.name {
        Some(name) => name,
        None => ProblemName::new(package.name.as_str()).map_err(|error| {
            anyhow!(
                "the name of the folder, '{}', {error}; give one with --name",
                package.name
            )
        })?,
    };
    if package.has_includes() {
        print_message(
            "warning: the files of include/ are not added to tasks of the problem; submissions must bring them",
        );
    }
    let client = args.client.connect()?;
    let tasks = PackageTasks::upload(&package, &client).await?;
    let HumanDuration(wait) = args.wait;
    let group = SubmissionGroup::new(SubmissionGroup::unique_name("measure")?, wait, &client);
    let given = args.time_limit.map(|HumanDuration(time)| time);
    let limit = match TimeLimit::find(&package, &tasks, &group, given).await {
        Ok((limit, _)) => limit,
        Err(failure) => return failure.into_exit_code(),
    };
    for warning in &limit.warnings {
        print_message(format_args!("warning: {warning}"));
    }
    let problem = client.put_problem(&name, &tasks.problem(limit.time)).await?;
    match args.client.output_format() {
        OutputFormat::Json => Stdout::open().json(&problem)?,
        OutputFormat::Text => Stdout::open().line(format_args!(
            "{name}: {}, {}, {limit}",
            problem.title,
            case_count(problem.cases.len())
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
