//! Compares what came out of a submission with what the package expects, and the times with the time limit.

use std::time::Duration;

use model::{Points, Verdict};
use problems::{ExpectedVerdicts, JudgedCase, JudgedSubmission, TimeBound, TimeLimitRule};

use crate::judge::{CaseRow, ExpectedOutcome, SubmissionRow};

/// The time limit that submissions are compared with, and the rule for its margins.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitAndRule {
    pub(super) limit: Duration,
    pub(super) rule: TimeLimitRule,
}

/// The cases of a submission that ran again under the extended limit.
#[derive(Debug, Default)]
pub(super) struct RepeatedCases {
    cases: Vec<CaseRow>,
    /// Why they could not run again.
    failure: Option<String>,
}

/// A run with this part of the limit is near it.
const NEAR: f64 = 0.75;
/// More repeated cases of a submission would say nothing new.
const MAX_REPEATED: usize = 3;

impl LimitAndRule {
    /// The limit of repeated runs: beyond it, no margin is too small.
    pub(super) fn extended(self) -> Duration {
        self.rule.least_time_of_too_slow(self.limit)
    }

    /// The slowest cases whose times are near the limit or beyond.
    pub(super) fn cases_to_repeat(self, row: &SubmissionRow) -> Vec<String> {
        if !row.is_judged() {
            return Vec::new();
        }
        let near = self.limit.as_secs_f64() * NEAR;
        let mut found: Vec<(&str, f64)> = row
            .cases
            .iter()
            .filter_map(|case| Some((case.name.as_str(), case.verdict, case.time_seconds?)))
            .filter(|(_, verdict, time)| *verdict == Verdict::TimeLimit || *time >= near)
            .map(|(name, _, time)| (name, time))
            .collect();
        found.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        found.truncate(MAX_REPEATED);
        found.into_iter().map(|(name, _)| name.to_string()).collect()
    }
}

impl RepeatedCases {
    pub(super) fn of(row: SubmissionRow) -> RepeatedCases {
        match row.why_without_times() {
            None => RepeatedCases {
                cases: row.cases,
                failure: None,
            },
            Some(failure) => RepeatedCases {
                cases: Vec::new(),
                failure: Some(failure),
            },
        }
    }
}

/// The cases as the `problems` crate compares them.
pub(super) fn judged_cases(cases: &[CaseRow]) -> Vec<JudgedCase<'_>> {
    let time = |case: &CaseRow| Duration::try_from_secs_f64(case.time_seconds?).ok();
    cases
        .iter()
        .map(|case| JudgedCase {
            name: &case.name,
            verdict: case.verdict,
            time: time(case).unwrap_or_default(),
            judge_message: &case.judge_message,
        })
        .collect()
}

/// Compares a submission with what is expected of it. The notes are about its times.
pub(super) fn compare(
    expected: &ExpectedVerdicts,
    row: &SubmissionRow,
    repeated: &RepeatedCases,
    limit: LimitAndRule,
) -> (ExpectedOutcome, Vec<String>) {
    let RepeatedCases {
        cases: repeated,
        failure,
    } = repeated;
    let mut mismatches = match row.judged() {
        None => vec!["was not judged".to_string()],
        Some(verdict) => find_mismatches(expected, verdict, &row.cases, row),
    };
    let mut notes = Vec::new();
    let again = repeated_cases(row, repeated, limit.limit);
    for (before, after) in row.cases.iter().zip(&again) {
        if before.verdict != after.verdict {
            notes.push(format!(
                "case {} is {} in one run and {} in another: its time is too near the limit",
                before.name, before.verdict, after.verdict
            ));
        }
    }
    if !notes.is_empty() {
        let failed = again.iter().map(|case| case.verdict);
        let verdict = failed.into_iter().find(|verdict| *verdict != Verdict::Accepted);
        let verdict = verdict.unwrap_or(Verdict::Accepted);
        let others = find_mismatches(expected, verdict, &again, row);
        let new = others.into_iter().filter(|other| !mismatches.contains(other));
        let new: Vec<_> = new.map(|mismatch| format!("when repeated: {mismatch}")).collect();
        mismatches.extend(new);
    }
    let slowest = again.iter().filter_map(|case| case.time_seconds).reduce(f64::max);
    match failure {
        // A run that was stopped at the limit does not tell how much time it needs beyond.
        Some(why) => notes.push(format!("its slowest cases could not be repeated: {why}")),
        None => notes.extend(margin_notes(expected, &again, limit)),
    }
    let outcome = ExpectedOutcome {
        expected: expected.to_string(),
        as_expected: mismatches.is_empty(),
        mismatches,
        time_limit_seconds: limit.limit.as_secs_f64(),
        time_of_limit: slowest.map(|slowest| rounded(slowest / limit.limit.as_secs_f64())),
        repeated: repeated.iter().map(|case| case.name.clone()).collect(),
    };
    (outcome, notes)
}

/// What did not come out as expected with these verdicts of the cases. The score is that of the row.
pub(super) fn find_mismatches(
    expected: &ExpectedVerdicts,
    verdict: Verdict,
    cases: &[CaseRow],
    row: &SubmissionRow,
) -> Vec<String> {
    expected.mismatches(&JudgedSubmission {
        verdict,
        score: points(row.score),
        max_score: points(row.max_score),
        cases: &judged_cases(cases),
    })
}

/// More digits would only look exact: two runs differ by more.
fn rounded(part: f64) -> f64 {
    const DIGITS: f64 = 1e4;
    (part * DIGITS).round() / DIGITS
}

/// Scores of many cases may be more than the points of one.
fn points(score: Option<f64>) -> Points {
    let millionths = score.unwrap_or_default() * Points::ONE.millionths() as f64;
    Points::from_millionths(millionths.round() as u64)
}

/// The cases with the verdicts and times of the repeated runs, judged by the limit itself.
fn repeated_cases(row: &SubmissionRow, repeated: &[CaseRow], limit: Duration) -> Vec<CaseRow> {
    let again = |case: &CaseRow| {
        let Some(other) = repeated.iter().find(|other| other.name == case.name) else {
            return case.clone();
        };
        let is_too_slow = other.time_seconds.is_some_and(|time| time > limit.as_secs_f64());
        CaseRow {
            verdict: match is_too_slow {
                true => Verdict::TimeLimit,
                false => other.verdict,
            },
            ..other.clone()
        }
    };
    row.cases.iter().map(again).collect()
}

/// Times that leave less margin to the limit than the package wants.
fn margin_notes(expected: &ExpectedVerdicts, cases: &[CaseRow], limit: LimitAndRule) -> Vec<String> {
    let judged = judged_cases(cases);
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    let mut notes = Vec::new();
    let most = limit.rule.most_time_of_fast_enough(limit.limit);
    if let Some(time) = expected.slowest(TimeBound::FastEnough, &judged)
        && time > most
    {
        notes.push(format!(
            "needs {} of {}; with the margin of the package, {} is the most",
            seconds(time),
            seconds(limit.limit),
            seconds(most)
        ));
    }
    let least = limit.extended();
    // A program that waits is stopped by the limit on wall time, and then its CPU time says nothing.
    let waits = |case: &CaseRow| {
        let is_below = case
            .time_seconds
            .is_some_and(|time| time <= limit.limit.as_secs_f64());
        case.verdict == Verdict::TimeLimit && is_below
    };
    if !cases.iter().any(waits)
        && let Some(time) = expected.slowest(TimeBound::TooSlow, &judged)
        && time < least
    {
        notes.push(format!(
            "needs only {} for its slowest case, and the limit is {}; with the margin of the package, {} is the least",
            seconds(time),
            seconds(limit.limit),
            seconds(least)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use problems::{CasePattern, ExpectedScore, VerdictRule};

    use super::*;

    const LIMIT: LimitAndRule = LimitAndRule {
        limit: Duration::from_secs(1),
        rule: TimeLimitRule::MULTIPLE,
    };

    fn case(name: &str, verdict: Verdict, seconds: f64) -> CaseRow {
        CaseRow {
            name: name.into(),
            verdict,
            points: 1.0,
            time_seconds: Some(seconds),
            memory_bytes: None,
            message: String::new(),
            judge_message: String::new(),
        }
    }

    fn row(verdict: Verdict, cases: &[CaseRow]) -> SubmissionRow {
        SubmissionRow {
            submission: "a.py".into(),
            language: None,
            task: None,
            verdict: verdict.to_string(),
            score: Some(1.0),
            max_score: Some(2.0),
            time_seconds: None,
            memory_bytes: None,
            cases: cases.to_vec(),
            notes: vec![],
            expected: None,
        }
    }

    fn expects(permitted: &[Verdict], required: &[Verdict], bound: TimeBound) -> ExpectedVerdicts {
        let rule = VerdictRule {
            origin: "folder".into(),
            cases: CasePattern::all(),
            permitted: permitted.iter().copied().collect(),
            required: required.iter().copied().collect(),
            score: ExpectedScore::Any,
            message: None,
            bound,
        };
        ExpectedVerdicts {
            results: Default::default(),
            rules: vec![rule],
        }
    }

    fn repeated(cases: &[CaseRow]) -> RepeatedCases {
        RepeatedCases::of(row(Verdict::Accepted, cases))
    }

    #[test]
    fn the_slowest_cases_near_the_limit_are_repeated() {
        let check = |cases: &[CaseRow], expected: &[&str]| {
            assert_eq!(LIMIT.cases_to_repeat(&row(Verdict::Accepted, cases)), expected);
        };
        check(&[case("1", Verdict::Accepted, 0.7)], &[]);
        check(
            &[
                case("1", Verdict::Accepted, 0.8),
                case("2", Verdict::Accepted, 0.9),
            ],
            &["2", "1"],
        );
        // A program that only waits is stopped by the backstop.
        check(&[case("1", Verdict::TimeLimit, 0.0)], &["1"]);
        let many: Vec<_> = (0..9)
            .map(|n| case(&n.to_string(), Verdict::TimeLimit, 1.0))
            .collect();
        assert_eq!(
            LIMIT.cases_to_repeat(&row(Verdict::TimeLimit, &many)).len(),
            MAX_REPEATED
        );
        assert_eq!(LIMIT.cases_to_repeat(&row(Verdict::JudgeError, &many)), [""; 0]);
        assert_eq!(LIMIT.extended(), Duration::from_millis(1500));
    }

    #[test]
    fn a_verdict_that_changes_is_not_as_expected() {
        let accepted = expects(&[Verdict::Accepted], &[], TimeBound::FastEnough);
        let first = row(Verdict::Accepted, &[case("1", Verdict::Accepted, 0.9)]);
        // It has ended under the longer limit, but too late for the limit itself.
        let again = repeated(&[case("1", Verdict::Accepted, 1.1)]);
        let (outcome, notes) = compare(&accepted, &first, &again, LIMIT);
        assert!(!outcome.as_expected);
        assert_eq!(
            outcome.mismatches,
            ["when repeated: folder: case 1 is time_limit, permitted is accepted"]
        );
        assert_eq!(
            notes[0],
            "case 1 is accepted in one run and time_limit in another: its time is too near the limit"
        );
        assert_eq!(outcome.time_of_limit, Some(1.1));
        assert_eq!(rounded(0.00152342), 0.0015);
        let again = repeated(&[case("1", Verdict::Accepted, 0.95)]);
        let (outcome, _) = compare(&accepted, &first, &again, LIMIT);
        assert!(outcome.as_expected && outcome.repeated == ["1"]);
    }

    #[test]
    fn small_margins_are_named() {
        let check = |expected: ExpectedVerdicts, verdict, seconds, again, part: Option<&str>| {
            let first = row(verdict, &[case("1", verdict, seconds)]);
            let again = repeated(&[case("1", verdict, again)]);
            let (_, notes) = compare(&expected, &first, &again, LIMIT);
            match part {
                Some(part) => assert!(notes[0].starts_with(part), "{notes:?}"),
                None => assert_eq!(notes, [""; 0]),
            }
        };
        let fast = || expects(&[Verdict::Accepted], &[], TimeBound::FastEnough);
        let slow = || expects(&[], &[Verdict::TimeLimit], TimeBound::TooSlow);
        check(fast(), Verdict::Accepted, 0.4, 0.4, None);
        check(
            fast(),
            Verdict::Accepted,
            0.8,
            0.8,
            Some("needs 0.800 s of 1.000 s;"),
        );
        check(slow(), Verdict::TimeLimit, 1.0, 1.5, None);
        check(slow(), Verdict::TimeLimit, 0.0, 0.0, None);
        check(slow(), Verdict::TimeLimit, 1.0, 1.2, Some("needs only 1.200 s"));
    }

    #[test]
    fn a_repetition_that_fails_is_a_note() {
        let slow = expects(&[], &[Verdict::TimeLimit], TimeBound::TooSlow);
        let first = row(Verdict::TimeLimit, &[case("1", Verdict::TimeLimit, 1.0)]);
        let mut refused = row(Verdict::Accepted, &[]);
        refused.verdict = "refused".into();
        refused.notes = vec!["groups.a: is unknown".into()];
        let (outcome, notes) = compare(&slow, &first, &RepeatedCases::of(refused), LIMIT);
        assert!(outcome.as_expected && outcome.repeated.is_empty());
        assert_eq!(
            notes,
            ["its slowest cases could not be repeated: groups.a: is unknown"]
        );
    }

    #[test]
    fn a_submission_that_was_not_judged_is_not_as_expected() {
        let mut refused = row(Verdict::Accepted, &[]);
        refused.verdict = "refused".into();
        let (outcome, _) = compare(
            &ExpectedVerdicts::default(),
            &refused,
            &RepeatedCases::default(),
            LIMIT,
        );
        assert_eq!(outcome.mismatches, ["was not judged"]);
        assert_eq!((outcome.expected.as_str(), outcome.time_of_limit), ("any", None));
    }
}
