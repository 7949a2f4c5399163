//! The time limit of a package: what it says, or what follows from the times of its submissions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::anyhow;
use api::HumanDuration;
use model::Verdict;
use problems::{ExpectedVerdicts, PackageSubmission, ProblemPackage, TimeBound};

use super::expectation::{find_mismatches, judged_cases};
use crate::judge::{GroupFailure, PackageTasks, SubmissionGroup, SubmissionRow, SubmissionRun};

/// The CPU time limit of a package, and where it comes from.
pub(super) struct TimeLimit {
    /// `None` if nothing says or bounds it.
    pub(super) time: Option<Duration>,
    origin: String,
    /// Submissions that were measured, and did not do what is expected of them: so their times may say nothing.
    pub(super) warnings: Vec<String>,
}

/// The submissions that have run to find the time limit, by their names.
pub(super) type MeasuredRuns = BTreeMap<String, SubmissionRun>;

const NO_BOUND: &str = "no submission must be fast enough in any case; --time-limit gives one";

/// How long submissions may run while the time limit is not known. They are fast enough by what the package says.
const MEASURING_LIMIT: Duration = Duration::from_secs(60);

impl TimeLimit {
    /// `given` wins over what the package says. Without both, the submissions that must be fast enough are run and measured.
    pub(super) async fn find(
        package: &ProblemPackage,
        tasks: &PackageTasks<'_>,
        group: &SubmissionGroup<'_>,
        given: Option<Duration>,
    ) -> Result<(TimeLimit, MeasuredRuns), GroupFailure> {
        let known = |time, origin: &str| {
            let limit = TimeLimit {
                time,
                origin: origin.to_string(),
                warnings: Vec::new(),
            };
            (limit, MeasuredRuns::new())
        };
        match (given, package.limits.time) {
            (Some(time), _) => return Ok(known(Some(time), "of --time-limit")),
            (None, Some(time)) => return Ok(known(Some(time), "of the package")),
            (None, None) => {}
        }
        let bounds = |submission: &&PackageSubmission| {
            let rules = &submission.expected.rules;
            rules.iter().any(|rule| rule.bound == TimeBound::FastEnough)
        };
        let submissions: Vec<_> = package.submissions.iter().filter(bounds).collect();
        if submissions.is_empty() {
            return Ok(known(None, NO_BOUND));
        }
        let mut measured = Vec::new();
        for submission in &submissions {
            measured.push(tasks.task(submission, MEASURING_LIMIT, None).await?);
        }
        let runs = group.run(measured).await?;
        let mut slowest: Option<(Duration, &str)> = None;
        let mut warnings = Vec::new();
        for (submission, run) in submissions.iter().zip(&runs) {
            let row = SubmissionRow::new(submission.name.clone(), run);
            let time = slowest_time(submission, &row)?;
            slowest = slowest.max(time.map(|time| (time, submission.name.as_str())));
            warnings.extend(warning(submission, &row));
        }
        let Some((slowest, slowest_name)) = slowest else {
            return Ok(known(None, NO_BOUND));
        };
        let limit = TimeLimit {
            time: Some(package.limits.time_rule.limit(slowest)),
            origin: format!(
                "from the slowest run that must be fast enough: {:.3} s of {slowest_name}",
                slowest.as_secs_f64()
            ),
            warnings,
        };
        let names = submissions.iter().map(|submission| submission.name.clone());
        Ok((limit, names.zip(runs).collect()))
    }

    /// What submissions are run with.
    pub(super) fn or_default(&self, package: &ProblemPackage) -> Duration {
        let least = package.limits.time_rule.limit(Duration::ZERO);
        self.time.unwrap_or(least)
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) => write!(f, "time limit {} ({})", HumanDuration(time), self.origin),
            None => write!(f, "no time limit ({})", self.origin),
        }
    }
}

/// The slowest of the cases in which a submission must be fast enough; `None` if there are none. An error if its times are
/// not known: a limit that follows from other submissions alone could be too short for it.
fn slowest_time(submission: &PackageSubmission, row: &SubmissionRow) -> anyhow::Result<Option<Duration>> {
    if let Some(why) = row.why_without_times() {
        return Err(anyhow!(
            "{} must be fast enough, and its times could not be measured; give the time limit with --time-limit: {why}",
            submission.name
        ));
    }
    let cases = judged_cases(&row.cases);
    let rules = submission.expected.rules.iter();
    for rule in rules.filter(|rule| rule.bound == TimeBound::FastEnough) {
        let is_too_slow = |case: &&problems::JudgedCase<'_>| {
            case.verdict == Verdict::TimeLimit && rule.cases.matches(case.name)
        };
        if let Some(case) = cases.iter().find(is_too_slow) {
            return Err(anyhow!(
                "{} must be fast enough, and needs more than {} for the case {}; give the time limit with --time-limit",
                submission.name,
                HumanDuration(MEASURING_LIMIT),
                case.name
            ));
        }
    }
    Ok(submission.expected.slowest(TimeBound::FastEnough, &cases))
}

/// Says if a submission does not do what is expected of it in the cases in which it must be fast enough. The other cases
/// may end differently under the time limit that is not known yet.
fn warning(submission: &PackageSubmission, row: &SubmissionRow) -> Option<String> {
    let rules = submission.expected.rules.iter();
    let bounds = ExpectedVerdicts {
        rules: rules
            .filter(|rule| rule.bound == TimeBound::FastEnough)
            .cloned()
            .collect(),
        ..ExpectedVerdicts::default()
    };
    let mismatches = find_mismatches(&bounds, row.judged()?, &row.cases, row);
    let first = mismatches.first()?;
    Some(format!(
        "{} was measured, and is not as expected: {first}",
        submission.name
    ))
}

#[cfg(test)]
mod tests {
    use model::LanguageName;
    use problems::{CasePattern, ExpectedScore, VerdictRule};

    use super::*;
    use crate::judge::CaseRow;

    fn submission() -> PackageSubmission {
        let rule = VerdictRule {
            origin: "accepted".into(),
            cases: CasePattern::all(),
            permitted: [Verdict::Accepted].into(),
            required: [].into(),
            score: ExpectedScore::Any,
            message: None,
            bound: TimeBound::FastEnough,
        };
        PackageSubmission {
            name: "accepted/a.py".into(),
            files: vec![],
            language: LanguageName::new("python").unwrap(),
            run: None,
            expected: ExpectedVerdicts {
                results: [].into(),
                rules: vec![rule],
            },
        }
    }

    fn row(verdict: &str, cases: &[(Verdict, Option<f64>)]) -> SubmissionRow {
        let case = |(verdict, time_seconds): &(Verdict, Option<f64>)| CaseRow {
            name: "1".into(),
            verdict: *verdict,
            points: 0.0,
            time_seconds: *time_seconds,
            memory_bytes: None,
            message: String::new(),
            judge_message: String::new(),
        };
        let mut row = SubmissionRow::new("accepted/a.py".into(), &SubmissionRun::Refused("no gcc".into()));
        row.verdict = verdict.into();
        row.cases = cases.iter().map(case).collect();
        row
    }

    #[test]
    fn the_slowest_case_bounds_the_limit() {
        let fast = row(
            "accepted",
            &[(Verdict::Accepted, Some(0.5)), (Verdict::Accepted, Some(0.25))],
        );
        let slowest = slowest_time(&submission(), &fast).unwrap();
        assert_eq!(slowest, Some(Duration::from_millis(500)));
        assert_eq!(warning(&submission(), &fast), None);
        let mut unbounded = submission();
        unbounded.expected.rules[0].bound = TimeBound::None;
        assert_eq!(slowest_time(&unbounded, &fast).unwrap(), None);
    }

    #[test]
    fn a_submission_without_times_is_an_error_that_names_it() {
        for (row, why) in [
            (
                row("refused", &[]),
                "measured; give the time limit with --time-limit: no gcc",
            ),
            (
                row("compile_error", &[(Verdict::Skipped, None)]),
                "could not be measured",
            ),
            (row("system_error", &[]), "could not be measured"),
            (
                row("judge_error", &[(Verdict::JudgeError, Some(0.1))]),
                "could not be measured",
            ),
            (
                row("time_limit", &[(Verdict::TimeLimit, Some(60.0))]),
                "needs more than 60s for the case 1",
            ),
        ] {
            let error = slowest_time(&submission(), &row).unwrap_err().to_string();
            assert!(
                error.starts_with("accepted/a.py must be fast enough, and "),
                "{error}"
            );
            assert!(error.contains(why) && error.contains("--time-limit"), "{error}");
        }
    }

    #[test]
    fn a_measured_submission_that_fails_is_a_warning() {
        let failed = row("runtime_error", &[(Verdict::RuntimeError, Some(0.01))]);
        assert!(slowest_time(&submission(), &failed).is_ok());
        assert_eq!(
            warning(&submission(), &failed).unwrap(),
            "accepted/a.py was measured, and is not as expected: accepted: case 1 is runtime_error, permitted is accepted"
        );
    }
}
