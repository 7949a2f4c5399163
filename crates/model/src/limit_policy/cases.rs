//! The limits of the cases of a judged task.

use std::time::Duration;

use super::LimitPolicy;
use crate::{Capacity, InvalidField, Limits, TaskSpec};

/// How often the CPU limit fits into the wall limit that goes with it, and what comes on top. The CPU time decides about a
/// case; the wall limit only ends programs that wait for ever, on a machine however busy.
const WALL_FACTOR: u32 = 3;
const WALL_MARGIN: Duration = Duration::from_secs(10);

impl LimitPolicy {
    /// Gives a wall limit to the execute step and the cases of a judged task that set a CPU limit and no wall limit.
    pub(super) fn set_wall_backstops(&self, spec: &mut TaskSpec) {
        let Some(judging) = &mut spec.judging else {
            return;
        };
        let backstop = |cpu: Duration| {
            let wall = cpu.saturating_mul(WALL_FACTOR).saturating_add(WALL_MARGIN);
            self.max.wall.map_or(wall, |max| wall.min(max))
        };
        let execute = &mut spec.execute.limits;
        let has_own_wall = execute.wall.is_some();
        execute.wall = execute.wall.or(execute.cpu.map(backstop));
        for limits in judging.cases.iter_mut().map(|case| &mut case.limits) {
            if !has_own_wall {
                limits.wall = limits.wall.or(limits.cpu.map(backstop));
            }
        }
    }

    /// Refuses limits of cases above the maxima, and those that no executor can give. A case keeps only the limits that it
    /// sets, because the others are those of the execute step.
    pub(super) fn check_cases(&self, spec: &TaskSpec, capacity: &Capacity) -> Result<(), InvalidField> {
        let cases = spec.judging.iter().flat_map(|judging| &judging.cases);
        for (index, case) in cases.enumerate() {
            if case.limits == Limits::default() {
                continue;
            }
            let limits = case.limits.or(spec.execute.limits);
            let resolved = self.resolve_within(limits, capacity);
            resolved
                .and_then(|limits| capacity.check_step(&limits))
                .map_err(|invalid| invalid.within(&format!("cases[{index}].limits")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Case, CaseName, Check, Content, Judging, Points, StepCommand, StopRule, UserName};

    fn limits((cpu, wall): (Option<u64>, Option<u64>)) -> Limits {
        Limits {
            cpu: cpu.map(Duration::from_secs),
            wall: wall.map(Duration::from_secs),
            ..Limits::default()
        }
    }

    /// A task with a single case.
    fn judged(execute: Limits, case: Limits) -> TaskSpec {
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        spec.execute.limits = execute;
        spec.judging = Some(Judging {
            cases: vec![Case {
                name: CaseName::new("1").unwrap(),
                input: Content::empty(),
                answer: None,
                args: vec![],
                files: BTreeMap::new(),
                points: Points::ONE,
                group: None,
                limits: case,
                is_sample: false,
            }],
            check: Check::None,
            stop: StopRule::Never,
            groups: BTreeMap::new(),
            problem: None,
        });
        spec
    }

    #[test]
    fn the_wall_limit_of_judged_tasks_is_a_backstop() {
        type Asked = (Option<u64>, Option<u64>);
        let check = |execute: Asked, case: Asked, expected: (u64, Option<u64>)| {
            let mut spec = judged(limits(execute), limits(case));
            let policy = LimitPolicy {
                max: limits((None, Some(100))),
                ..LimitPolicy::default()
            };
            policy.apply(&mut spec, None, &Capacity::UNKNOWN).unwrap();
            let seconds = |wall: Option<Duration>| wall.map(|wall| wall.as_secs());
            let judging = spec.judging.as_ref().unwrap();
            let found = (
                seconds(spec.execute.limits.wall).unwrap(),
                seconds(judging.cases[0].limits.wall),
            );
            assert_eq!(found, expected, "{execute:?} {case:?}");
        };
        let none = (None, None);
        check(none, none, (60, None));
        check((Some(2), None), none, (16, None));
        check((Some(2), Some(5)), none, (5, None));
        check((Some(50), None), none, (100, None));
        check((Some(u64::MAX / 2), None), none, (100, None));
        check((Some(2), None), (Some(4), None), (16, Some(22)));
        check((Some(2), None), (Some(4), Some(3)), (16, Some(3)));
        check((Some(2), None), (None, Some(3)), (16, Some(3)));
        check(none, (Some(4), None), (60, Some(22)));
        // A limit that the user has chosen is no default.
        check((None, Some(7)), (Some(4), None), (7, None));
        let mut unjudged = TaskSpec {
            judging: None,
            ..judged(limits((Some(2), None)), Limits::default())
        };
        let policy = LimitPolicy::default();
        policy.apply(&mut unjudged, None, &Capacity::UNKNOWN).unwrap();
        assert_eq!(unjudged.execute.limits.wall, Some(Duration::from_secs(60)));
    }
}
