//! The points of cases, the groups in which they add up, and the arguments of programs in each group.

mod legacy;
mod test_groups;

use std::collections::BTreeMap;

use model::{CaseName, GroupScoring, Points, StopRule};

use crate::data::{DataCase, DataGroup, SAMPLE, in_order};
use crate::error::PackageError;
use crate::package::{PackageCase, PackageFormat};
use crate::settings::PackageSettings;

/// The cases of a package with their points.
#[derive(Debug)]
pub(crate) struct ScoredCases {
    pub(crate) cases: Vec<PackageCase>,
    pub(crate) groups: BTreeMap<CaseName, GroupScoring>,
    pub(crate) stop: StopRule,
    /// Arguments of the output validator, the same in all groups.
    pub(crate) validator_args: Vec<String>,
}

/// Collects cases while the tree of groups is walked.
#[derive(Default)]
struct CaseCollector {
    cases: Vec<PackageCase>,
    groups: BTreeMap<CaseName, GroupScoring>,
    /// Those of the first case, and its name.
    validator_args: Option<(CaseName, Vec<String>)>,
}

/// The arguments of programs for the cases of a group.
#[derive(Clone, Debug, Default)]
struct CaseArguments {
    submission: Vec<String>,
    validator: Vec<String>,
}

/// How many points some cases have, and how they add up.
#[derive(Clone, Copy, Debug)]
enum GroupPoints {
    /// Every case has these points.
    Each(Points, GroupScoring),
    /// The cases have these points together.
    Together(Points, GroupScoring),
}

impl ScoredCases {
    pub(crate) fn read(
        data: &DataGroup,
        settings: &PackageSettings,
        warnings: &mut Vec<String>,
    ) -> Result<ScoredCases, PackageError> {
        let mut collector = CaseCollector::default();
        let stop = match settings.format {
            PackageFormat::Legacy => legacy::collect(data, settings, &mut collector, warnings)?,
            PackageFormat::Draft2023 | PackageFormat::V2025 => {
                test_groups::collect(data, settings, &mut collector, warnings)?
            }
        };
        let CaseCollector {
            mut cases,
            groups,
            validator_args,
        } = collector;
        cases.sort_by(|a, b| in_order(&a.name, &b.name));
        Ok(ScoredCases {
            cases,
            groups,
            stop,
            validator_args: validator_args.map(|(_, args)| args).unwrap_or_default(),
        })
    }
}

impl GroupPoints {
    fn scoring(self) -> GroupScoring {
        match self {
            GroupPoints::Each(_, scoring) | GroupPoints::Together(_, scoring) => scoring,
        }
    }

    /// The points of one of `count` cases. Millionths that do not divide evenly go to the first ones.
    fn of_case(self, index: usize, count: usize) -> Points {
        match self {
            GroupPoints::Each(points, _) => points,
            GroupPoints::Together(points, _) => {
                let (all, count) = (points.millionths(), count.max(1) as u64);
                let rest = u64::from((index as u64) < all % count);
                Points::from_millionths(all / count + rest)
            }
        }
    }
}

impl CaseCollector {
    /// Adds the cases of a problem without scores.
    fn add_without_group(&mut self, case: &DataCase, args: CaseArguments) -> Result<(), PackageError> {
        self.add(case, args, (Points::ONE, None))
    }

    /// Adds cases as one group.
    fn add_group(
        &mut self,
        name: &str,
        cases: Vec<(&DataCase, CaseArguments)>,
        points: GroupPoints,
    ) -> Result<(), PackageError> {
        let Some((first, _)) = cases.first() else {
            return Ok(());
        };
        let group = CaseName::new(name).map_err(|problem| PackageError::CaseName {
            path: first.input.clone(),
            problem,
        })?;
        self.groups.insert(group.clone(), points.scoring());
        let count = cases.len();
        for (index, (case, args)) in cases.into_iter().enumerate() {
            let points = points.of_case(index, count);
            self.add(case, args, (points, Some(group.clone())))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        case: &DataCase,
        args: CaseArguments,
        (points, group): (Points, Option<CaseName>),
    ) -> Result<(), PackageError> {
        let CaseArguments {
            submission,
            validator,
        } = args;
        match &self.validator_args {
            Some((_, others)) if *others == validator => {}
            Some((other, _)) => {
                let what = format!("the output validator has other arguments than for {other}");
                return Err(PackageError::not_supported(&case.input, what));
            }
            None => self.validator_args = Some((case.name.clone(), validator)),
        }
        self.cases.push(PackageCase {
            name: case.name.clone(),
            input: case.input.clone(),
            answer: Some(case.answer.clone()),
            is_sample: case.name.as_str().split('/').next() == Some(SAMPLE),
            points,
            group,
            args: submission,
            files: case.files.clone(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_group_are_divided_without_a_remainder() {
        for (all, count, expected) in [
            (9_000_000, 3, vec![3_000_000, 3_000_000, 3_000_000]),
            (10_000_000, 3, vec![3_333_334, 3_333_333, 3_333_333]),
            (1, 2, vec![1, 0]),
        ] {
            let points = GroupPoints::Together(Points::from_millionths(all), GroupScoring::Sum);
            let found: Vec<_> = (0..count)
                .map(|index| points.of_case(index, count).millionths())
                .collect();
            assert_eq!(found, expected);
            assert_eq!(found.iter().sum::<u64>(), all);
        }
    }
}
