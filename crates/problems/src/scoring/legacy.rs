//! `testdata.yaml`: how the default grader of the legacy format adds points up.

use std::path::{Path, PathBuf};

use model::{GroupScoring, Points, StopRule};

use super::{CaseArguments, CaseCollector, GroupPoints};
use crate::data::{DataCase, DataGroup, SAMPLE};
use crate::error::PackageError;
use crate::settings::PackageSettings;
use crate::yaml::YamlView;

/// The settings of a group. What a group does not set is as in the group around it.
#[derive(Clone, Debug)]
struct GraderSettings {
    /// What errors name: the file of the group, or its folder.
    path: PathBuf,
    stops_at_failure: bool,
    mode: GraderMode,
    ignores_sample: bool,
    validator_flags: Vec<String>,
    /// The points of a case that is accepted.
    worth: f64,
    /// The most points that a validator may give.
    most: f64,
}

/// How the default grader adds the scores of a group up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GraderMode {
    Sum,
    Average,
    Min,
    Max,
}

/// Walks the groups of a package in the legacy format.
struct GraderWalk<'a> {
    settings: &'a PackageSettings,
    collector: &'a mut CaseCollector,
    warnings: &'a mut Vec<String>,
    all_stop: bool,
    /// Groups in which cases after a failure would not count.
    break_off: Vec<PathBuf>,
}

const KNOWN: &[&str] = &[
    "accept_score",
    "grader_flags",
    "grading",
    "input_validator_flags",
    "on_reject",
    "output_validator_flags",
    "range",
    "reject_score",
];

pub(super) fn collect(
    data: &DataGroup,
    settings: &PackageSettings,
    collector: &mut CaseCollector,
    warnings: &mut Vec<String>,
) -> Result<StopRule, PackageError> {
    let mut root = GraderSettings::of_problem(settings)?;
    root.take(data, settings, warnings)?;
    let mut walk = GraderWalk {
        settings,
        collector,
        warnings,
        all_stop: root.stops_at_failure,
        break_off: vec![],
    };
    for group in &data.groups {
        let mut inner = root.clone();
        inner.take(group, settings, walk.warnings)?;
        if group.name == SAMPLE && root.ignores_sample {
            inner.worth = 0.0;
            inner.most = 0.0;
        }
        walk.add(group, &inner)?;
    }
    let is_combined = settings.is_scoring && !matches!(root.mode, GraderMode::Sum) && !root.ignores_sample;
    if is_combined && data.groups.iter().filter(|group| group.has_cases()).count() > 1 {
        let what = "a score that is not the sum of those of data/sample and data/secret; add ignore_sample to grader_flags";
        return Err(PackageError::not_supported(&root.path, what));
    }
    match walk.all_stop {
        true => Ok(StopRule::FirstFailure),
        false => {
            let places = walk.break_off.iter().map(|path| path.display().to_string());
            let warning =
                |place| format!("{place}: on_reject: break is not done, cases after a failure count");
            warnings.extend(places.map(warning));
            Ok(StopRule::Never)
        }
    }
}

impl GraderSettings {
    /// The defaults, of which old packages have some in `problem.yaml`.
    fn of_problem(settings: &PackageSettings) -> Result<GraderSettings, PackageError> {
        let path = &settings.path;
        let grading = |key| settings.grading.get(key).map(String::as_str);
        let mut found = GraderSettings {
            path: path.clone(),
            stops_at_failure: true,
            mode: GraderMode::Sum,
            ignores_sample: false,
            validator_flags: settings.validation.flags.clone(),
            worth: 1.0,
            most: f64::INFINITY,
        };
        if let Some(on_reject) = grading("on_reject") {
            found.stops_at_failure = match on_reject {
                "first_error" | "break" => true,
                "worst_error" | "grade" | "continue" => false,
                other => {
                    let problem = format!("grading.on_reject is '{other}', not first_error or worst_error");
                    return Err(PackageError::scoring(path, problem));
                }
            };
        }
        let number = |key| match grading(key) {
            Some(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => {
                    let problem = format!("grading.{key} must be a number, not '{text}'");
                    Err(PackageError::scoring(path, problem))
                }
            },
            None => Ok(None),
        };
        found.worth = number("accept_score")?.unwrap_or(found.worth);
        check_reject_score(path, number("reject_score")?.unwrap_or(0.0))?;
        if let Some(range) = grading("range") {
            found.most = upper_bound(range).map_err(|problem| PackageError::scoring(path, problem))?;
        }
        Ok(found)
    }

    /// Takes what the file of a group sets.
    fn take(
        &mut self,
        group: &DataGroup,
        settings: &PackageSettings,
        warnings: &mut Vec<String>,
    ) -> Result<(), PackageError> {
        let Some(file) = &group.settings else {
            return Ok(());
        };
        self.path = file.path().to_path_buf();
        let view = file.view()?;
        view.warn_of_unknown(KNOWN, warnings);
        if let Some(on_reject) = view.get("on_reject") {
            self.stops_at_failure = match on_reject.text()? {
                "break" => true,
                "continue" => false,
                other => return Err(on_reject.error(format!("must be break or continue, not '{other}'"))),
            };
        }
        if let Some(grading) = view.get("grading")
            && grading.text()? != "default"
        {
            return Err(grading.error(format!("'{}' is not supported; only default is", grading.text()?)));
        }
        if let Some(flags) = view.get("output_validator_flags") {
            let own = validator_flags(flags)?;
            self.validator_flags = [settings.validation.flags.clone(), own].concat();
        }
        if let Some(flags) = view.get("grader_flags") {
            self.take_grader_flags(&flags)?;
        }
        if let Some(score) = view.get("accept_score") {
            self.worth = score.number()?;
        }
        if let Some(score) = view.get("reject_score") {
            check_reject_score(&self.path, score.number()?)?;
        }
        if let Some(range) = view.get("range") {
            let text = range.words()?.join(" ");
            self.most = upper_bound(&text).map_err(|problem| range.error(problem))?;
        }
        Ok(())
    }

    fn take_grader_flags(&mut self, flags: &YamlView<'_>) -> Result<(), PackageError> {
        self.mode = GraderMode::Sum;
        self.ignores_sample = false;
        for flag in flags.words()? {
            match flag.as_str() {
                "sum" => self.mode = GraderMode::Sum,
                "avg" => self.mode = GraderMode::Average,
                "min" => self.mode = GraderMode::Min,
                "max" => self.mode = GraderMode::Max,
                "ignore_sample" => self.ignores_sample = true,
                // They decide about the verdict of a group, and here only cases have verdicts.
                "worst_error" | "first_error" | "always_accept" | "accept_if_any_accepted" | "no_errors" => {}
                other => {
                    return Err(flags.error(format!("has '{other}', which the default grader does not know")));
                }
            }
        }
        Ok(())
    }

    /// The points of a case that gets all that it can.
    fn points(&self, settings: &PackageSettings, warnings: &mut Vec<String>) -> Result<Points, PackageError> {
        let place = self.path.display();
        let points = match settings.validation.gives_scores {
            true if self.most.is_infinite() => {
                warnings.push(format!(
                    "{place}: no range bounds the scores of the validator, they are cut at {}",
                    Points::MAX
                ));
                Points::MAX.as_f64()
            }
            true => self.most,
            false => self.worth,
        };
        Points::from_f64(points).ok_or_else(|| {
            let problem = format!("a case has {points} points; 0 to {} are possible", Points::MAX);
            PackageError::scoring(&self.path, problem)
        })
    }
}

impl GraderWalk<'_> {
    fn add(&mut self, group: &DataGroup, settings: &GraderSettings) -> Result<(), PackageError> {
        if !group.has_cases() {
            return Ok(());
        }
        self.all_stop &= settings.stops_at_failure;
        let args = CaseArguments {
            submission: vec![],
            validator: settings.validator_flags.clone(),
        };
        let own: Vec<_> = group.cases.iter().map(|case| (case, args.clone())).collect();
        let mut inner = vec![];
        for group in group.groups.iter().filter(|group| group.has_cases()) {
            let mut found = settings.clone();
            found.take(group, self.settings, self.warnings)?;
            inner.push((group, found));
        }
        if !self.settings.is_scoring {
            for (case, args) in own {
                self.collector.add_without_group(case, args)?;
            }
            return inner
                .iter()
                .try_for_each(|(group, settings)| self.add(group, settings));
        }
        // Of a single part, every mode makes the same score.
        let has_one_part = own.is_empty() && inner.len() == 1;
        match settings.mode {
            GraderMode::Sum => {}
            _ if has_one_part => {}
            GraderMode::Max => {
                return Err(PackageError::not_supported(
                    &settings.path,
                    "the grader's flag max",
                ));
            }
            GraderMode::Average | GraderMode::Min if inner.is_empty() => {}
            GraderMode::Min => return self.add_minimum(group, settings, own),
            GraderMode::Average => {
                let what = "the average of groups; only of cases it is possible";
                return Err(PackageError::not_supported(&settings.path, what));
            }
        }
        if settings.stops_at_failure && settings.mode != GraderMode::Min && own.len() > 1 {
            self.break_off.push(settings.path.clone());
        }
        if !own.is_empty() {
            let worth = settings.points(self.settings, self.warnings)?;
            let points = match settings.mode {
                GraderMode::Average => GroupPoints::Together(worth, GroupScoring::Sum),
                GraderMode::Min => GroupPoints::Each(worth, GroupScoring::Min),
                GraderMode::Sum | GraderMode::Max => GroupPoints::Each(worth, GroupScoring::Sum),
            };
            self.collector.add_group(&group.name, own, points)?;
        }
        inner
            .iter()
            .try_for_each(|(group, settings)| self.add(group, settings))
    }

    /// The least of groups of which each is the least of its cases is the least of all cases.
    fn add_minimum<'a>(
        &mut self,
        group: &'a DataGroup,
        settings: &GraderSettings,
        mut cases: Vec<(&'a DataCase, CaseArguments)>,
    ) -> Result<(), PackageError> {
        let worth = settings.points(self.settings, self.warnings)?;
        let mut open: Vec<_> = group
            .groups
            .iter()
            .map(|group| (group, settings.clone()))
            .collect();
        while let Some((group, mut settings)) = open.pop() {
            settings.take(group, self.settings, self.warnings)?;
            self.all_stop &= settings.stops_at_failure;
            let is_one = group.all_cases().len() <= 1;
            if !(settings.mode == GraderMode::Min || is_one)
                || settings.points(self.settings, self.warnings)? != worth
            {
                let what = "a group that is no minimum, or has other points, in a group that is the minimum of its groups";
                return Err(PackageError::not_supported(&settings.path, what));
            }
            let args = CaseArguments {
                submission: vec![],
                validator: settings.validator_flags.clone(),
            };
            cases.extend(group.cases.iter().map(|case| (case, args.clone())));
            open.extend(group.groups.iter().map(|group| (group, settings.clone())));
        }
        let points = GroupPoints::Each(worth, GroupScoring::Min);
        self.collector.add_group(&group.name, cases, points)
    }
}

/// Flags as one text, or with the name of the validator.
fn validator_flags(flags: YamlView<'_>) -> Result<Vec<String>, PackageError> {
    match flags.is_mapping() {
        true => match flags.get("flags") {
            Some(flags) => flags.words(),
            None => Ok(vec![]),
        },
        false => flags.words(),
    }
}

fn check_reject_score(path: &Path, score: f64) -> Result<(), PackageError> {
    match score == 0.0 {
        true => Ok(()),
        false => {
            let what = format!("a reject_score of {score}: a case that is not accepted has no points");
            Err(PackageError::not_supported(path, what))
        }
    }
}

/// The second of two numbers.
fn upper_bound(range: &str) -> Result<f64, String> {
    let numbers: Vec<_> = range.split_whitespace().map(str::parse::<f64>).collect();
    match numbers.as_slice() {
        [Ok(least), Ok(most)] if least <= most => Ok(*most),
        _ => Err(format!("must be two numbers like '0 100', not '{range}'")),
    }
}
