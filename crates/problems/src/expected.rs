//! Which verdicts are expected of a submission, and whether they came out.

mod pattern;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use model::{Points, Verdict};

pub use pattern::CasePattern;
pub(crate) use pattern::matches_submission;

/// What is expected of a submission: all of its rules must hold.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ExpectedVerdicts {
    /// The verdict of the submission as a whole is one of these. Empty: any.
    pub results: BTreeSet<Verdict>,
    pub rules: Vec<VerdictRule>,
}

/// What is expected of the verdicts of some cases.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictRule {
    /// Where the rule comes from, as messages name it: `wrong_answer`, `submissions.yaml:3: mixed/*`.
    pub origin: String,
    pub cases: CasePattern,
    /// Every case has one of these. Empty: any.
    pub permitted: BTreeSet<Verdict>,
    /// At least one case has one of these. Empty: nothing is required.
    pub required: BTreeSet<Verdict>,
    pub score: ExpectedScore,
    /// A part of the message of the judge for at least one case.
    pub message: Option<String>,
    /// Whether the times of these cases bound the time limit.
    pub bound: TimeBound,
}

/// What is expected of the score of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum ExpectedScore {
    #[default]
    Any,
    /// Less than the full score.
    Partial,
    Between {
        least: f64,
        most: f64,
    },
}

/// Whether the time limit must be above or below the time of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeBound {
    #[default]
    None,
    /// The submission must be fast enough.
    FastEnough,
    /// The submission must be too slow.
    TooSlow,
}

/// What came out of a submission.
#[derive(Clone, Copy, Debug)]
pub struct JudgedSubmission<'a> {
    pub verdict: Verdict,
    pub score: Points,
    pub max_score: Points,
    /// Those that ran, or all: skipped ones do not count.
    pub cases: &'a [JudgedCase<'a>],
}

/// What came out of a case of a submission.
#[derive(Clone, Copy, Debug)]
pub struct JudgedCase<'a> {
    pub name: &'a str,
    pub verdict: Verdict,
    /// CPU time.
    pub time: Duration,
    /// Empty if the judge said nothing, or nobody may see it.
    pub judge_message: &'a str,
}

/// The format knows four verdicts. A program that takes too much memory or writes too much has crashed there.
pub(crate) const CRASHES: [Verdict; 3] = [Verdict::RuntimeError, Verdict::MemoryLimit, Verdict::OutputLimit];

impl ExpectedVerdicts {
    /// Nothing but this rule is expected.
    pub(crate) fn of_rule(rule: VerdictRule) -> ExpectedVerdicts {
        ExpectedVerdicts {
            results: BTreeSet::new(),
            rules: vec![rule],
        }
    }

    /// What did not come out as expected, one sentence each. Empty if all is as expected.
    pub fn mismatches(&self, judged: &JudgedSubmission<'_>) -> Vec<String> {
        if judged.verdict == Verdict::JudgeError {
            return vec!["the judge failed, so nothing can be said".into()];
        }
        let mut found = vec![];
        if !self.results.is_empty() && !self.results.contains(&judged.verdict) {
            found.push(format!(
                "{} came out, expected is {}",
                judged.verdict,
                or_list(&self.results)
            ));
        }
        for rule in &self.rules {
            rule.find_mismatches(judged, &mut found);
        }
        found
    }

    /// The slowest of the cases whose times bound the time limit in this way.
    pub fn slowest(&self, bound: TimeBound, cases: &[JudgedCase<'_>]) -> Option<Duration> {
        let rules = self.rules.iter().filter(|rule| rule.bound == bound);
        let times = rules.flat_map(|rule| cases.iter().filter(|case| rule.cases.matches(case.name)));
        times.map(|case| case.time).max()
    }
}

/// For tables: "accepted", "wrong_answer or time_limit", "any".
impl fmt::Display for ExpectedVerdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.results.is_empty(), self.rules.as_slice()) {
            (false, _) => or_list(&self.results),
            (true, []) => "any".into(),
            (true, rules) => {
                let mut texts: Vec<_> = rules.iter().map(VerdictRule::summary).collect();
                texts.dedup();
                texts.join(", ")
            }
        };
        f.pad(&text)
    }
}

impl VerdictRule {
    pub(crate) fn new(origin: impl Into<String>, permitted: &[Verdict], required: &[Verdict]) -> VerdictRule {
        VerdictRule {
            origin: origin.into(),
            cases: CasePattern::all(),
            permitted: permitted.iter().copied().collect(),
            required: required.iter().copied().collect(),
            score: ExpectedScore::Any,
            message: None,
            bound: TimeBound::None,
        }
    }

    fn summary(&self) -> String {
        let mut text = match (self.required.is_empty(), self.permitted.is_empty()) {
            (false, _) => or_list(&in_format(&self.required)),
            (true, false) => or_list(&in_format(&self.permitted)),
            (true, true) => "any".into(),
        };
        if self.score != ExpectedScore::Any {
            text += match self.score {
                ExpectedScore::Partial => " with a partial score",
                _ => " with a given score",
            };
        }
        if !self.cases.is_all() {
            text += &format!(" in {}", self.cases);
        }
        text
    }

    fn find_mismatches(&self, judged: &JudgedSubmission<'_>, found: &mut Vec<String>) {
        let origin = &self.origin;
        if judged.verdict == Verdict::CompileError {
            let may_fail = |set: &BTreeSet<Verdict>| set.is_empty() || set.contains(&Verdict::CompileError);
            if !(may_fail(&self.permitted) && may_fail(&self.required)) {
                found.push(format!("{origin}: it does not compile"));
            }
            return;
        }
        let matching =
            |case: &&JudgedCase<'_>| case.verdict != Verdict::Skipped && self.cases.matches(case.name);
        let cases = || judged.cases.iter().filter(matching);
        if !self.permitted.is_empty() {
            let mut others: BTreeMap<Verdict, Vec<&str>> = BTreeMap::new();
            for case in cases().filter(|case| !self.permitted.contains(&case.verdict)) {
                others.entry(case.verdict).or_default().push(case.name);
            }
            let permitted = or_list(&self.permitted);
            for (verdict, names) in others {
                found.push(match names.as_slice() {
                    [name] => format!("{origin}: case {name} is {verdict}, permitted is {permitted}"),
                    names => format!(
                        "{origin}: {} cases are {verdict} (the first is {}), permitted is {permitted}",
                        names.len(),
                        names[0]
                    ),
                });
            }
        }
        if !self.required.is_empty() && !cases().any(|case| self.required.contains(&case.verdict)) {
            let required = or_list(&self.required);
            found.push(match self.cases.is_all() {
                true => format!("{origin}: no case is {required}"),
                false => format!("{origin}: no case of {} is {required}", self.cases),
            });
        }
        if let Some(message) = &self.message
            && !cases().any(|case| case.judge_message.contains(message.as_str()))
        {
            found.push(format!("{origin}: no message of the judge has '{message}'"));
        }
        let score = judged.score.as_f64();
        match self.score {
            ExpectedScore::Any => {}
            ExpectedScore::Partial if judged.score < judged.max_score => {}
            ExpectedScore::Partial => found.push(format!("{origin}: the score is the full one, {score}")),
            ExpectedScore::Between { least, most } if (least..=most).contains(&score) => {}
            ExpectedScore::Between { least, most } => {
                found.push(format!(
                    "{origin}: the score is {score}, expected is {least} to {most}"
                ));
            }
        }
    }
}

/// The verdicts as the format has them, for tables: a program that takes too much memory has crashed there.
fn in_format(verdicts: &BTreeSet<Verdict>) -> BTreeSet<Verdict> {
    let mut short = verdicts.clone();
    if CRASHES.iter().all(|crash| verdicts.contains(crash)) {
        short.remove(&Verdict::MemoryLimit);
        short.remove(&Verdict::OutputLimit);
    }
    short
}

fn or_list(verdicts: &BTreeSet<Verdict>) -> String {
    let names: Vec<_> = verdicts.iter().map(|verdict| verdict.as_str()).collect();
    match names.as_slice() {
        [] => "nothing".into(),
        [only] => only.to_string(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests;
