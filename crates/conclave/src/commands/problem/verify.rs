//! `conclave problem verify`: runs the submissions of a package, and says whether the expected verdicts come out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use api::{HttpClient, HumanDuration};
use problems::{PackageSubmission, ProblemPackage};

use super::expectation::{LimitAndRule, RepeatedCases, compare};
use super::time_limit::TimeLimit;
use super::{case_count, positive_time, read_package};
use crate::args::ClientFlags;
use crate::judge::{
    GroupFailure, PackageTasks, SubmissionGroup, SubmissionRow, SubmissionRun, TableFlags, print_table,
};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave problem verify`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Exit codes:
  0      every submission is as expected
  1      a submission is not as expected, or could not be judged
  124    not all were judged within the time of --wait; the rest was cancelled
  125    conclave itself failed: an invalid package, or no response from the server
  130    ended by Ctrl-C; what was not judged was cancelled
  2      invalid command line")]
pub(super) struct VerifyProblemArgs {
    /// Folder of the package
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// CPU time limit, if it is not that of the package
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    time_limit: Option<HumanDuration>,
    /// Wait this long at most until all are judged
    #[arg(long, value_name = "TIME", default_value = "1h")]
    wait: HumanDuration,
    #[command(flatten)]
    table: TableFlags,
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

/// What every submission of a package is run with.
struct Verification<'a> {
    package: &'a ProblemPackage,
    tasks: PackageTasks<'a>,
    group: SubmissionGroup<'a>,
}

pub(super) async fn run(args: VerifyProblemArgs) -> Result<ExitCode> {
    let package = read_package(&args.folder)?;
    let place = args.folder.display();
    ensure!(
        !package.submissions.is_empty(),
        "{place}: there is nothing to verify; put programs into submissions/accepted and others"
    );
    let client = args.client.connect()?;
    let verification = Verification::new(&package, &args, &client).await?;
    let given = args.time_limit.map(|HumanDuration(time)| time);
    let (limit, rows) = match verification.run(given).await {
        Ok(done) => done,
        Err(failure) => return failure.into_exit_code(),
    };
    let mut heading = format!(
        "{} ({}): {}, {limit}",
        package.title,
        package.format,
        case_count(package.cases.len())
    );
    if limit.time.is_none() {
        heading += &format!(", verified with {}", HumanDuration(limit.or_default(&package)));
    }
    match args.client.output_format() {
        OutputFormat::Text if args.table.is_text() => Stdout::open().line(&heading)?,
        _ => {}
    }
    print_table(&heading, &rows, args.table, args.client.output_format())?;
    let is_wrong = |row: &&SubmissionRow| row.expected.as_ref().is_none_or(|expected| !expected.as_expected);
    let wrong = rows.iter().filter(is_wrong).count();
    match wrong {
        0 => print_message(format_args!("all {} submissions are as expected", rows.len())),
        wrong => print_message(format_args!(
            "{wrong} of {} submissions are not as expected",
            rows.len()
        )),
    }
    Ok(match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

impl<'a> Verification<'a> {
    async fn new(
        package: &'a ProblemPackage,
        args: &VerifyProblemArgs,
        client: &'a HttpClient,
    ) -> Result<Verification<'a>> {
        let name = SubmissionGroup::unique_name("verify")?;
        print_message(format_args!("group {name}"));
        let HumanDuration(wait) = args.wait;
        Ok(Verification {
            package,
            tasks: PackageTasks::upload(package, client).await?,
            group: SubmissionGroup::new(name, wait, client),
        })
    }

    async fn run(
        &self,
        given: Option<std::time::Duration>,
    ) -> Result<(TimeLimit, Vec<SubmissionRow>), GroupFailure> {
        let (found, mut measured) = TimeLimit::find(self.package, &self.tasks, &self.group, given).await?;
        let limit = LimitAndRule {
            limit: found.or_default(self.package),
            rule: self.package.limits.time_rule,
        };
        // A run beyond the limit that was found would have ended otherwise under it, so it is repeated.
        measured.retain(|_, run| run.is_within(limit.limit));
        let submissions = &self.package.submissions;
        let mut tasks = Vec::new();
        for submission in submissions
            .iter()
            .filter(|submission| !measured.contains_key(&submission.name))
        {
            tasks.push(self.tasks.task(submission, limit.limit, None).await?);
        }
        let mut others = self.group.run(tasks).await?.into_iter();
        let mut rows = Vec::new();
        for submission in submissions {
            let run = measured.remove(&submission.name).or_else(|| others.next());
            let run = run.unwrap_or_else(|| SubmissionRun::Refused("the server has no answer".into()));
            rows.push(SubmissionRow::new(submission.name.clone(), &run));
        }
        let repeated = self.repeat(&rows, limit).await?;
        for ((submission, row), repeated) in submissions.iter().zip(&mut rows).zip(repeated) {
            let (outcome, notes) = compare(&submission.expected, row, &repeated, limit);
            row.expected = Some(outcome);
            row.notes.extend(notes);
        }
        Ok((found, rows))
    }

    /// Repeats the cases whose times are near the limit or beyond, under a longer limit. Returns what came of each row.
    async fn repeat(
        &self,
        rows: &[SubmissionRow],
        limit: LimitAndRule,
    ) -> Result<Vec<RepeatedCases>, GroupFailure> {
        let mut repeated: Vec<_> = rows.iter().map(|_| RepeatedCases::default()).collect();
        let mut places = Vec::new();
        let mut tasks = Vec::new();
        let submissions: &[PackageSubmission] = &self.package.submissions;
        for (place, (row, submission)) in rows.iter().zip(submissions).enumerate() {
            let names = limit.cases_to_repeat(row);
            if !names.is_empty() {
                tasks.push(
                    self.tasks
                        .task(submission, limit.extended(), Some(&names))
                        .await?,
                );
                places.push(place);
            }
        }
        for (place, run) in places.into_iter().zip(self.group.run(tasks).await?) {
            repeated[place] = RepeatedCases::of(SubmissionRow::new(String::new(), &run));
        }
        Ok(repeated)
    }
}
