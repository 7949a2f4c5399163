//! The folders in `submissions/`, and the verdicts that each expects.

use model::Verdict::{self, Accepted, CompileError, TimeLimit, WrongAnswer};

use crate::expected::{CRASHES, ExpectedScore, TimeBound, VerdictRule};
use crate::package::PackageFormat;

/// What a folder expects; `None` if it says nothing.
pub(super) fn rule(directory: &str, format: PackageFormat) -> Option<VerdictRule> {
    let is_legacy = format == PackageFormat::Legacy;
    let [runtime_error, memory_limit, output_limit] = CRASHES;
    let crashes_or = |others: &[Verdict]| [&CRASHES, others].concat();
    // In the legacy format, only accepted submissions bound the time limit from below.
    let since_2023 = |bound| match is_legacy {
        true => TimeBound::None,
        false => bound,
    };
    let rule = |permitted: &[Verdict], required: &[Verdict], bound| {
        let mut rule = VerdictRule::new(directory, permitted, required);
        rule.bound = bound;
        Some(rule)
    };
    match directory {
        "accepted" => rule(&[Accepted], &[], TimeBound::FastEnough),
        "wrong_answer" => rule(
            &[Accepted, WrongAnswer],
            &[WrongAnswer],
            since_2023(TimeBound::FastEnough),
        ),
        "time_limit_exceeded" if is_legacy => rule(
            &[Accepted, TimeLimit, WrongAnswer],
            &[TimeLimit],
            TimeBound::TooSlow,
        ),
        "time_limit_exceeded" => rule(&[Accepted, TimeLimit], &[TimeLimit], TimeBound::TooSlow),
        "run_time_error" if is_legacy => rule(&[], &CRASHES, TimeBound::None),
        "run_time_error" => rule(&crashes_or(&[Accepted]), &CRASHES, TimeBound::FastEnough),
        "rejected" => rule(
            &[],
            &[WrongAnswer, TimeLimit, runtime_error, memory_limit, output_limit],
            TimeBound::None,
        ),
        "brute_force" => rule(
            &crashes_or(&[Accepted, TimeLimit]),
            &crashes_or(&[TimeLimit]),
            TimeBound::None,
        ),
        "partially_accepted" => {
            let mut rule = VerdictRule::new(directory, &[], &[]);
            rule.score = ExpectedScore::Partial;
            Some(rule)
        }
        "memory_limit_exceeded" => rule(&crashes_or(&[Accepted]), &[memory_limit], TimeBound::None),
        "output_limit_exceeded" => rule(&crashes_or(&[Accepted]), &[output_limit], TimeBound::None),
        "compile_error" | "compiler_error" => rule(&[CompileError], &[], TimeBound::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use model::Verdict::{MemoryLimit, OutputLimit, RuntimeError};

    use super::*;

    /// Which verdicts of one case are as expected, when all other cases are accepted.
    fn check(directory: &str, format: PackageFormat, expected: &[Verdict]) {
        use crate::expected::{ExpectedVerdicts, JudgedCase, JudgedSubmission};
        use model::Points;
        let rule = rule(directory, format).unwrap();
        let rules = ExpectedVerdicts::of_rule(rule);
        let all = [
            Accepted,
            WrongAnswer,
            TimeLimit,
            RuntimeError,
            MemoryLimit,
            OutputLimit,
        ];
        let is_expected = |verdict: &Verdict| {
            let case = |verdict| JudgedCase {
                name: "secret/1",
                verdict,
                time: Default::default(),
                judge_message: "",
            };
            let judged = JudgedSubmission {
                verdict: *verdict,
                score: Points::ZERO,
                max_score: Points::ONE,
                cases: &[case(Accepted), case(*verdict)],
            };
            rules.mismatches(&judged).is_empty()
        };
        let found: Vec<_> = all.into_iter().filter(is_expected).collect();
        assert_eq!(found, expected, "{directory} {format}");
    }

    #[test]
    fn folders_expect_verdicts() {
        use PackageFormat::{Legacy, V2025};
        check("accepted", Legacy, &[Accepted]);
        check("wrong_answer", V2025, &[WrongAnswer]);
        check("time_limit_exceeded", Legacy, &[TimeLimit]);
        check("run_time_error", V2025, &[RuntimeError, MemoryLimit, OutputLimit]);
        let rejected = [WrongAnswer, TimeLimit, RuntimeError, MemoryLimit, OutputLimit];
        check("rejected", V2025, &rejected);
        check("brute_force", V2025, &rejected[1..]);
        check(
            "partially_accepted",
            Legacy,
            &[
                Accepted,
                WrongAnswer,
                TimeLimit,
                RuntimeError,
                MemoryLimit,
                OutputLimit,
            ],
        );
        check("memory_limit_exceeded", V2025, &[MemoryLimit]);
        assert!(rule("mixed", V2025).is_none());
    }

    #[test]
    fn only_accepted_submissions_bound_the_time_from_below_in_the_legacy_format() {
        let bound = |directory, format| rule(directory, format).unwrap().bound;
        assert_eq!(bound("wrong_answer", PackageFormat::Legacy), TimeBound::None);
        assert_eq!(bound("wrong_answer", PackageFormat::V2025), TimeBound::FastEnough);
        assert_eq!(bound("accepted", PackageFormat::Legacy), TimeBound::FastEnough);
        assert_eq!(
            bound("time_limit_exceeded", PackageFormat::Legacy),
            TimeBound::TooSlow
        );
        assert_eq!(bound("brute_force", PackageFormat::V2025), TimeBound::None);
    }
}
