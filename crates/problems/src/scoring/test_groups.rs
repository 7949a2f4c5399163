//! `test_group.yaml` and the settings of single cases, as the formats since 2023 have them.

use std::path::PathBuf;

use model::{GroupScoring, Points, StopRule};

use super::{CaseArguments, CaseCollector, GroupPoints};
use crate::data::{DataCase, DataGroup, SECRET};
use crate::error::PackageError;
use crate::settings::PackageSettings;
use crate::yaml::{YamlFile, YamlView};

/// How `secret` or a group in it is scored.
#[derive(Clone, Debug)]
struct TestGroupScoring {
    /// What errors name: the file of the group, or its folder.
    path: PathBuf,
    /// `None` without a bound.
    most: Option<Points>,
    aggregation: GroupScoring,
}

/// Walks the groups of a package in a format with `test_group.yaml`.
struct TestGroupWalk<'a> {
    collector: &'a mut CaseCollector,
    warnings: &'a mut Vec<String>,
}

const GROUP_KEYS: &[&str] = &[
    "args",
    "full_feedback",
    "input_validator_args",
    "input_validator_flags",
    "input_visualizer_args",
    "max_score",
    "output_validator_args",
    "output_validator_flags",
    "output_visualizer_args",
    "require_pass",
    "score_aggregation",
    "static_validation_score",
    "static_validator_args",
];
const CASE_KEYS: &[&str] = &[
    "args",
    "description",
    "full_feedback",
    "hint",
    "input_validator_args",
    "input_validator_flags",
    "input_visualizer_args",
    "output_validator_args",
    "output_validator_flags",
    "output_visualizer_args",
];

pub(super) fn collect(
    data: &DataGroup,
    settings: &PackageSettings,
    collector: &mut CaseCollector,
    warnings: &mut Vec<String>,
) -> Result<StopRule, PackageError> {
    let mut walk = TestGroupWalk { collector, warnings };
    let root = walk.arguments(
        data,
        &CaseArguments {
            submission: vec![],
            validator: settings.validation.flags.clone(),
        },
    )?;
    for group in &data.groups {
        match (settings.is_scoring, group.name.as_str()) {
            (true, SECRET) => walk.add_secret(group, &root)?,
            (true, _) => {
                // Samples do not contribute to the score.
                let cases = walk.cases(group, &root)?;
                let points = GroupPoints::Each(Points::ZERO, GroupScoring::Sum);
                walk.collector.add_group(&group.name, cases, points)?;
            }
            (false, _) => {
                for (case, args) in walk.cases(group, &root)? {
                    walk.collector.add_without_group(case, args)?;
                }
            }
        }
    }
    Ok(match settings.is_scoring {
        true => StopRule::Never,
        false => StopRule::FirstFailure,
    })
}

impl TestGroupWalk<'_> {
    /// The arguments in a group: its own, or those of the group around it.
    fn arguments(&mut self, group: &DataGroup, outer: &CaseArguments) -> Result<CaseArguments, PackageError> {
        let Some(file) = &group.settings else {
            return Ok(outer.clone());
        };
        let view = file.view()?;
        view.warn_of_unknown(GROUP_KEYS, self.warnings);
        own_arguments(&view, outer)
    }

    /// All cases of a group and of the folders in it.
    fn cases<'a>(
        &mut self,
        group: &'a DataGroup,
        outer: &CaseArguments,
    ) -> Result<Vec<(&'a DataCase, CaseArguments)>, PackageError> {
        let args = self.arguments(group, outer)?;
        let mut found = vec![];
        for case in &group.cases {
            let args = match &case.settings {
                Some(file) => {
                    let view = file.view()?;
                    view.warn_of_unknown(CASE_KEYS, self.warnings);
                    own_arguments(&view, &args)?
                }
                None => args.clone(),
            };
            found.push((case, args));
        }
        for inner in &group.groups {
            found.extend(self.cases(inner, &args)?);
        }
        Ok(found)
    }

    fn add_secret(&mut self, secret: &DataGroup, outer: &CaseArguments) -> Result<(), PackageError> {
        let hundred = Points::from_f64(100.0);
        let scoring = self.scoring(secret, (hundred, GroupScoring::Sum))?;
        if secret.groups.is_empty() {
            let cases = self.cases(secret, outer)?;
            return self.add_scored(&secret.name, cases, &scoring);
        }
        if !secret.cases.is_empty() {
            let problem = "has cases beside groups; put all cases into groups, or none";
            return Err(PackageError::scoring(&secret.path, problem));
        }
        let mut groups = vec![];
        for group in &secret.groups {
            groups.push((group, self.scoring(group, (None, GroupScoring::PassAll))?));
        }
        match scoring.aggregation {
            GroupScoring::Sum => {}
            _ if groups.len() == 1 => {}
            GroupScoring::Min => {
                let what = "score_aggregation: min of groups; only of cases it is possible";
                return Err(PackageError::not_supported(&scoring.path, what));
            }
            // All groups are pass-fail then, too, so that together they are one such group.
            GroupScoring::PassAll => {
                let cases = self.cases(secret, outer)?;
                return self.add_scored(&secret.name, cases, &scoring);
            }
        }
        let args = self.arguments(secret, outer)?;
        let together: Option<Vec<Points>> = groups.iter().map(|(_, scoring)| scoring.most).collect();
        if let (Some(together), Some(most)) = (together, scoring.most)
            && together.iter().copied().sum::<Points>() > most
        {
            let place = scoring.path.display();
            self.warnings.push(format!(
                "{place}: the groups have more points together than max_score, {most}"
            ));
        }
        for (group, scoring) in groups {
            let cases = self.cases(group, &args)?;
            self.add_scored(&group.name, cases, &scoring)?;
        }
        Ok(())
    }

    fn add_scored(
        &mut self,
        name: &str,
        cases: Vec<(&DataCase, CaseArguments)>,
        scoring: &TestGroupScoring,
    ) -> Result<(), PackageError> {
        let points = match (scoring.most, scoring.aggregation) {
            (Some(most), GroupScoring::Min) => GroupPoints::Each(most, GroupScoring::Min),
            (Some(most), other) => GroupPoints::Together(most, other),
            (None, GroupScoring::PassAll) => {
                let problem = "max_score is missing: a group that is pass-fail needs it";
                return Err(PackageError::scoring(&scoring.path, problem));
            }
            (None, other) => {
                self.warnings.push(format!(
                    "{}: no max_score bounds the scores of the validator, they are cut at {}",
                    scoring.path.display(),
                    Points::MAX
                ));
                GroupPoints::Each(Points::MAX, other)
            }
        };
        self.collector.add_group(name, cases, points)
    }

    /// How a group is scored; what it does not say is as in `defaults`.
    fn scoring(
        &mut self,
        group: &DataGroup,
        defaults: (Option<Points>, GroupScoring),
    ) -> Result<TestGroupScoring, PackageError> {
        let (most, aggregation) = defaults;
        let mut scoring = TestGroupScoring {
            path: group
                .settings
                .as_ref()
                .map_or(&*group.path, YamlFile::path)
                .to_path_buf(),
            most,
            aggregation,
        };
        let Some(file) = &group.settings else {
            return Ok(scoring);
        };
        let view = file.view()?;
        if let Some(most) = view.get("max_score") {
            scoring.most = match most.text()? {
                "unbounded" => None,
                _ => Some(Points::from_f64(most.number()?).ok_or_else(|| {
                    most.error(format!(
                        "must be 'unbounded' or a number from 0 to {}",
                        Points::MAX
                    ))
                })?),
            };
        }
        if let Some(aggregation) = view.get("score_aggregation") {
            scoring.aggregation = match aggregation.text()? {
                "pass-fail" => GroupScoring::PassAll,
                "sum" => GroupScoring::Sum,
                "min" => GroupScoring::Min,
                other => {
                    return Err(aggregation.error(format!("must be pass-fail, sum or min, not '{other}'")));
                }
            };
        }
        for key in ["static_validation_score", "scoring", "grading"] {
            if let Some(value) = view.get(key) {
                return Err(value.error("is not supported; max_score and score_aggregation are"));
            }
        }
        if let Some(required) = view.get("require_pass")
            && !required.texts()?.is_empty()
        {
            self.warnings.push(format!(
                "{}: is not done, the group is scored by its own cases alone",
                required.place()
            ));
        }
        Ok(scoring)
    }
}

fn own_arguments(view: &YamlView<'_>, outer: &CaseArguments) -> Result<CaseArguments, PackageError> {
    let mut args = outer.clone();
    if let Some(own) = view.get("args") {
        args.submission = own.texts()?;
    }
    if let Some(own) = view.get("output_validator_args") {
        args.validator = own.texts()?;
    } else if let Some(own) = view.get("output_validator_flags") {
        // The name that drafts had, for a text as in the legacy format.
        args.validator = own.words()?;
    }
    Ok(args)
}
