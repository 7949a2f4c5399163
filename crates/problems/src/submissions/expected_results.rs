//! `@EXPECTED_RESULTS@: A, B` in the source of a submission, as DOMjudge has it.

use std::collections::BTreeSet;

use model::Verdict;

use crate::error::PackageError;
use crate::expected::{ExpectedVerdicts, TimeBound, VerdictRule};
use crate::folder::bounded_bytes;
use crate::package::{PackageContent, PackageFile};

const TAG: &str = "@EXPECTED_RESULTS@:";

/// The names that DOMjudge knows, and those that it takes for them.
const NAMES: &[(&str, Verdict)] = &[
    ("ACCEPTED", Verdict::Accepted),
    ("COMPILER-ERROR", Verdict::CompileError),
    ("COMPILER_ERROR", Verdict::CompileError),
    ("CORRECT", Verdict::Accepted),
    ("MEMORY-LIMIT", Verdict::MemoryLimit),
    ("MEMORY_LIMIT_EXCEEDED", Verdict::MemoryLimit),
    // A judge takes no output for a wrong answer.
    ("NO-OUTPUT", Verdict::WrongAnswer),
    ("NO_OUTPUT", Verdict::WrongAnswer),
    ("OUTPUT-LIMIT", Verdict::OutputLimit),
    ("OUTPUT_LIMIT", Verdict::OutputLimit),
    ("RUN-ERROR", Verdict::RuntimeError),
    ("RUN_TIME_ERROR", Verdict::RuntimeError),
    ("TIMELIMIT", Verdict::TimeLimit),
    ("TIME_LIMIT_EXCEEDED", Verdict::TimeLimit),
    ("WRONG-ANSWER", Verdict::WrongAnswer),
    ("WRONG_ANSWER", Verdict::WrongAnswer),
];
/// Somebody looks at the verdict, so that every one is as expected.
const CHECKED_BY_HAND: &str = "CHECK-MANUALLY";

/// What the files of a submission say, if they say something.
pub(super) fn find(
    files: &[PackageFile],
    warnings: &mut Vec<String>,
) -> Result<Option<ExpectedVerdicts>, PackageError> {
    for file in files {
        let bytes = match &file.content {
            PackageContent::Path(path) => match bounded_bytes(path) {
                // Data is no source.
                Err(PackageError::FileTooLarge { .. }) => continue,
                bytes => bytes?,
            },
            PackageContent::Bytes(bytes) => bytes.clone(),
        };
        let text = String::from_utf8_lossy(&bytes);
        let Some((_, rest)) = text.split_once(TAG) else {
            continue;
        };
        let (expected, unknown) = parse(rest.lines().next().unwrap_or_default());
        for word in unknown {
            warnings.push(format!("{}: {TAG} '{word}' is not a result, ignored", file.path));
        }
        return Ok(Some(expected));
    }
    Ok(None)
}

/// The expected verdicts of a list, and what in it is none.
fn parse(list: &str) -> (ExpectedVerdicts, Vec<String>) {
    let mut results = BTreeSet::new();
    let mut unknown = vec![];
    let mut is_any = false;
    for word in list.split(',') {
        // The end of a comment may follow.
        let word = word.split_whitespace().next().unwrap_or_default();
        let upper = word.to_ascii_uppercase();
        match NAMES.iter().find(|(name, _)| *name == upper) {
            Some((_, verdict)) => drop(results.insert(*verdict)),
            None if upper == CHECKED_BY_HAND => is_any = true,
            None => unknown.push(word.to_string()),
        }
    }
    let bound = match (results.len(), results.first()) {
        (1, Some(Verdict::Accepted)) => TimeBound::FastEnough,
        (1, Some(Verdict::TimeLimit)) => TimeBound::TooSlow,
        _ => TimeBound::None,
    };
    if is_any {
        results.clear();
    }
    let mut rule = VerdictRule::new("@EXPECTED_RESULTS@", &[], &[]);
    rule.bound = bound;
    let expected = ExpectedVerdicts {
        results,
        ..ExpectedVerdicts::of_rule(rule)
    };
    (expected, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Accepted, RuntimeError, TimeLimit, WrongAnswer};

    fn check(list: &str, expected: &[Verdict], bound: TimeBound, unknown: &[&str]) {
        let (found, words) = parse(list);
        let results: Vec<_> = found.results.iter().copied().collect();
        assert_eq!(
            (results.as_slice(), found.rules[0].bound),
            (expected, bound),
            "{list}"
        );
        assert_eq!(words, unknown, "{list}");
    }

    #[test]
    fn results_have_several_names() {
        check(" CORRECT", &[Accepted], TimeBound::FastEnough, &[]);
        check(
            " wrong-answer, TIMELIMIT */",
            &[WrongAnswer, TimeLimit],
            TimeBound::None,
            &[],
        );
        check("TIME_LIMIT_EXCEEDED", &[TimeLimit], TimeBound::TooSlow, &[]);
        check(
            "RUN-ERROR,NO-OUTPUT",
            &[WrongAnswer, RuntimeError],
            TimeBound::None,
            &[],
        );
        check("CORRECT, CHECK-MANUALLY", &[], TimeBound::FastEnough, &[]);
        check("GOOD, CORRECT", &[Accepted], TimeBound::FastEnough, &["GOOD"]);
    }
}
