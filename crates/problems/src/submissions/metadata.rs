//! `submissions.yaml`: what is expected of submissions beyond what their folders say.

use std::collections::BTreeSet;
use std::path::Path;

use model::Verdict;

use crate::error::PackageError;
use crate::expected::{CRASHES, CasePattern, ExpectedScore, TimeBound, VerdictRule, matches_submission};
use crate::package::PackageSubmission;
use crate::yaml::{YamlFile, YamlView};

/// What `submissions.yaml` says.
#[derive(Debug, Default)]
pub(super) struct SubmissionMetadata {
    entries: Vec<MetadataEntry>,
}

/// What is said about the submissions that a pattern matches.
#[derive(Debug)]
struct MetadataEntry {
    pattern: String,
    /// Where it is written.
    place: String,
    program: MetadataProgram,
    /// The first one is about all cases.
    rules: Vec<MetadataRule>,
}

/// How a submission is compiled and run. Each value has the place where it is written.
#[derive(Clone, Debug, Default)]
pub(super) struct MetadataProgram {
    pub(super) language: Option<(String, String)>,
    pub(super) entry_point: Option<(String, String)>,
}

/// What is said about some cases; `None` where nothing is said.
#[derive(Clone, Debug)]
struct MetadataRule {
    cases: CasePattern,
    permitted: Option<BTreeSet<Verdict>>,
    required: Option<BTreeSet<Verdict>>,
    score: Option<ExpectedScore>,
    message: Option<String>,
    bound: Option<MetadataBound>,
}

/// What `use_for_time_limit` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataBound {
    /// What follows from the verdicts.
    OfVerdicts,
    Is(TimeBound),
}

const PROGRAM_KEYS: [&str; 4] = ["language", "entrypoint", "authors", "model_solution"];
const RULE_KEYS: [&str; 5] = ["permitted", "required", "score", "message", "use_for_time_limit"];

impl SubmissionMetadata {
    pub(super) fn parse(
        path: &Path,
        text: &str,
        warnings: &mut Vec<String>,
    ) -> Result<SubmissionMetadata, PackageError> {
        let file = YamlFile::parse(path, text)?;
        let mut entries = vec![];
        for (pattern, view) in file.view()?.entries() {
            let place = view.place();
            let view = view.mapping()?;
            let text = |key: &str| match view.get(key) {
                Some(value) => Ok(Some((value.text()?.to_string(), value.place()))),
                None => Ok(None),
            };
            let program = MetadataProgram {
                language: text("language")?,
                entry_point: text("entrypoint")?,
            };
            let mut rules = vec![MetadataRule::read(&view, CasePattern::all())?];
            for (key, value) in view.entries() {
                if PROGRAM_KEYS.contains(&key) || RULE_KEYS.contains(&key) {
                    continue;
                }
                match value.is_mapping() {
                    true => {
                        value.warn_of_unknown(&RULE_KEYS, warnings);
                        rules.push(MetadataRule::read(&value, CasePattern::new(key))?);
                    }
                    false => warnings.push(format!("{}: unknown key, ignored", value.place())),
                }
            }
            for rule in rules.iter().skip(1).filter(|rule| rule.score.is_some()) {
                warnings.push(format!("{place}: the score of {} is not compared", rule.cases));
            }
            entries.push(MetadataEntry {
                pattern: pattern.into(),
                place,
                program,
                rules,
            });
        }
        Ok(SubmissionMetadata { entries })
    }

    fn entries_of(&self, submission: &str) -> impl Iterator<Item = &MetadataEntry> {
        let matches = move |entry: &&MetadataEntry| matches_submission(&entry.pattern, submission);
        self.entries.iter().filter(matches)
    }

    pub(super) fn program_of(&self, submission: &str) -> MetadataProgram {
        let mut found = MetadataProgram::default();
        for entry in self.entries_of(submission) {
            let said = entry.program.clone();
            found.language = said.language.or(found.language);
            found.entry_point = said.entry_point.or(found.entry_point);
        }
        found
    }

    /// The rule of a folder, with what is said under the name of the folder itself.
    pub(super) fn replace_rule(&self, directory: &str, mut rule: VerdictRule) -> VerdictRule {
        let entry = self.entries.iter().find(|entry| entry.pattern == directory);
        if let Some(entry) = entry
            && let Some(said) = entry.rules.first().filter(|said| !said.is_empty())
        {
            rule.origin.clone_from(&entry.place);
            said.apply_to(&mut rule);
        }
        rule
    }

    pub(super) fn has_rule_of(&self, submission: &str) -> bool {
        self.entries_of(submission)
            .any(|entry| entry.rules.iter().any(|rule| !rule.is_empty()))
    }

    /// The rules besides those of the folder of a submission.
    pub(super) fn rules_of(&self, submission: &str) -> Vec<VerdictRule> {
        let mut found = vec![];
        for entry in self.entries_of(submission) {
            let is_folder = super::directories::rule(&entry.pattern, crate::PackageFormat::V2025).is_some();
            let skipped = usize::from(is_folder);
            for said in entry.rules.iter().skip(skipped).filter(|rule| !rule.is_empty()) {
                let mut rule = VerdictRule::new(entry.place.clone(), &[], &[]);
                said.apply_to(&mut rule);
                found.push(rule);
            }
        }
        found
    }

    pub(super) fn warn_of_unused(&self, submissions: &[PackageSubmission], warnings: &mut Vec<String>) {
        for entry in &self.entries {
            let is_used =
                |submission: &PackageSubmission| matches_submission(&entry.pattern, &submission.name);
            // The names of folders may stand there for all packages alike.
            let is_folder = super::directories::rule(&entry.pattern, crate::PackageFormat::V2025).is_some();
            if !is_folder && !submissions.iter().any(is_used) {
                warnings.push(format!("{}: matches no submission", entry.place));
            }
        }
    }
}

impl MetadataRule {
    fn read(view: &YamlView<'_>, cases: CasePattern) -> Result<MetadataRule, PackageError> {
        let bound = match view.get("use_for_time_limit") {
            None => None,
            Some(value) => Some(match value.text()? {
                "lower" => MetadataBound::Is(TimeBound::FastEnough),
                "upper" => MetadataBound::Is(TimeBound::TooSlow),
                _ => match value.boolean() {
                    Ok(true) => MetadataBound::OfVerdicts,
                    Ok(false) => MetadataBound::Is(TimeBound::None),
                    Err(_) => return Err(value.error("must be true, false, lower or upper")),
                },
            }),
        };
        Ok(MetadataRule {
            cases,
            permitted: verdicts(view, "permitted")?,
            required: verdicts(view, "required")?,
            score: score(view)?,
            message: match view.get("message") {
                Some(message) => Some(message.text()?.to_string()),
                None => None,
            },
            bound,
        })
    }

    fn is_empty(&self) -> bool {
        let verdicts = self.permitted.is_none() && self.required.is_none();
        verdicts && self.score.is_none() && self.message.is_none() && self.bound.is_none()
    }

    fn apply_to(&self, rule: &mut VerdictRule) {
        rule.cases.clone_from(&self.cases);
        if let Some(permitted) = &self.permitted {
            rule.permitted.clone_from(permitted);
        }
        if let Some(required) = &self.required {
            rule.required.clone_from(required);
        }
        if let Some(score) = self.score {
            rule.score = score;
        }
        if let Some(message) = &self.message {
            rule.message = Some(message.clone());
        }
        rule.bound = match self.bound {
            Some(MetadataBound::Is(bound)) => bound,
            Some(MetadataBound::OfVerdicts) => bound_of_verdicts(rule),
            // A rule whose verdicts stay the same keeps its bound.
            None if self.permitted.is_none() && self.required.is_none() => rule.bound,
            None => bound_of_verdicts(rule),
        };
    }
}

/// A submission that must be too slow bounds the limit from above, one that may not be too slow from below.
fn bound_of_verdicts(rule: &VerdictRule) -> TimeBound {
    let only_too_slow = BTreeSet::from([Verdict::TimeLimit]);
    match rule.required == only_too_slow {
        true => TimeBound::TooSlow,
        false if !rule.permitted.is_empty() && !rule.permitted.contains(&Verdict::TimeLimit) => {
            TimeBound::FastEnough
        }
        false => TimeBound::None,
    }
}

fn verdicts(view: &YamlView<'_>, key: &str) -> Result<Option<BTreeSet<Verdict>>, PackageError> {
    let Some(value) = view.get(key) else {
        return Ok(None);
    };
    let mut found = BTreeSet::new();
    for word in value.texts()? {
        match word.as_str() {
            "AC" => drop(found.insert(Verdict::Accepted)),
            "WA" => drop(found.insert(Verdict::WrongAnswer)),
            "TLE" => drop(found.insert(Verdict::TimeLimit)),
            "RTE" => found.extend(CRASHES),
            other => return Err(value.error(format!("has '{other}'; AC, WA, TLE and RTE are known"))),
        }
    }
    Ok(Some(found))
}

fn score(view: &YamlView<'_>) -> Result<Option<ExpectedScore>, PackageError> {
    let Some(value) = view.get("score") else {
        return Ok(None);
    };
    let numbers: Result<Vec<f64>, _> = value.texts()?.iter().map(|text| text.parse::<f64>()).collect();
    match numbers.as_deref() {
        Ok([one]) => Ok(Some(ExpectedScore::Between {
            least: *one,
            most: *one,
        })),
        Ok([least, most]) if least <= most => Ok(Some(ExpectedScore::Between {
            least: *least,
            most: *most,
        })),
        _ => Err(value.error("must be a number, or two numbers like [0, 50]")),
    }
}
