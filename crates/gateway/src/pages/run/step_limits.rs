//! The default limits that the page Run shows, and which limits of a task were requested.

use std::collections::BTreeMap;

use model::{
    Capacity, CompileStep, ExecutorState, Language, LimitPolicy, Limits, StepCommand, TaskSpec,
    ToolRequirement, UserName,
};

use crate::caller::DEFAULT_USER;

/// The limits of the steps of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepLimits {
    /// `None` without a compile step.
    pub(super) compile: Option<Limits>,
    pub(super) execute: Limits,
}

/// What limits follow from: the operator's policy, the task's language, and what executors can give.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitSources<'a> {
    pub(super) policy: &'a LimitPolicy,
    pub(super) language: Option<&'a Language>,
    pub(super) capacity: Capacity,
}

/// Copies one limit.
type CopyLimit = fn(&mut Limits, &Limits);

const EACH: [CopyLimit; 9] = [
    |to, from| to.wall = from.wall,
    |to, from| to.cpu = from.cpu,
    |to, from| to.memory = from.memory,
    |to, from| to.output = from.output,
    |to, from| to.processes = from.processes,
    |to, from| to.file_size = from.file_size,
    |to, from| to.open_files = from.open_files,
    |to, from| to.stack = from.stack,
    |to, from| to.space = from.space,
];

/// What the executors that may run such a task can give it, as a judicator counts it: also those that are not connected now,
/// and all of them if none has the tools.
pub(super) fn capacity_for(executors: &[ExecutorState], requires: &ToolRequirement) -> Capacity {
    let able = executors
        .iter()
        .filter(|executor| executor.tools.satisfy(requires));
    let all = executors.iter().map(|executor| executor.capacity);
    Capacity::combined(able.map(|executor| executor.capacity))
        .or_else(|| Capacity::combined(all))
        .unwrap_or(Capacity::UNKNOWN)
}

impl LimitSources<'_> {
    /// The limits of a task with both steps that requests none.
    pub(super) fn defaults(&self) -> StepLimits {
        let none = StepLimits {
            compile: Some(Limits::default()),
            execute: Limits::default(),
        };
        self.resolve(&none).unwrap_or(none)
    }

    /// The limits that a task with these limits must request to get them again. The others follow by themselves.
    pub(super) fn requested(&self, limits: &StepLimits) -> StepLimits {
        let defaults = self.defaults();
        let mut requested = StepLimits {
            compile: limits
                .compile
                .map(|own| differing(&own, &defaults.compile.unwrap_or_default())),
            execute: differing(&limits.execute, &defaults.execute),
        };
        // A limit may follow from another one that is requested, as the open files do from the processes.
        for step in [StepLimits::compile, StepLimits::execute] {
            let Some(wanted) = step(&mut limits.clone()).copied() else {
                continue;
            };
            for copy in EACH {
                let mut fewer = requested;
                step(&mut fewer)
                    .into_iter()
                    .for_each(|own| copy(own, &Limits::default()));
                let resolved = self.resolve(&fewer);
                let got = resolved.and_then(|mut resolved| step(&mut resolved).copied());
                if got.is_some_and(|got| is_same(copy, &got, &wanted)) {
                    requested = fewer;
                }
            }
        }
        requested
    }

    /// The limits of a task that requests these; `None` if it would be refused.
    fn resolve(&self, requested: &StepLimits) -> Option<StepLimits> {
        let mut spec = TaskSpec::new(UserName::new(DEFAULT_USER).ok()?, StepCommand::of_language());
        spec.compile = requested.compile.map(|limits| CompileStep {
            command: StepCommand::of_language(),
            env: BTreeMap::new(),
            network: None,
            limits,
        });
        spec.execute.limits = requested.execute;
        let language = self.language.map(|language| &language.limits);
        self.policy.apply(&mut spec, language, &self.capacity).ok()?;
        Some(StepLimits {
            compile: spec.compile.map(|step| step.limits),
            execute: spec.execute.limits,
        })
    }
}

impl StepLimits {
    fn compile(&mut self) -> Option<&mut Limits> {
        self.compile.as_mut()
    }

    fn execute(&mut self) -> Option<&mut Limits> {
        Some(&mut self.execute)
    }
}

/// The limits that are not the default ones.
fn differing(limits: &Limits, default: &Limits) -> Limits {
    let mut differing = Limits::default();
    for copy in EACH {
        if !is_same(copy, limits, default) {
            copy(&mut differing, limits);
        }
    }
    differing
}

/// Whether the limit that `copy` copies is the same in both.
fn is_same(copy: CopyLimit, one: &Limits, other: &Limits) -> bool {
    let mut copied = *one;
    copy(&mut copied, other);
    copied == *one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a machine on which each of 512 processes may have 602 files open.
    const CAPACITY: Capacity = Capacity {
        memory: 4 << 30,
        processes: 8192,
        open_files: 602 * 512,
    };

    #[test]
    fn the_defaults_are_those_that_a_task_gets() {
        let check = |capacity: Capacity, open_files: u32, space: u64| {
            let policy = LimitPolicy::default();
            let sources = LimitSources {
                policy: &policy,
                language: None,
                capacity,
            };
            let defaults = sources.defaults();
            assert_eq!(defaults.compile, Some(defaults.execute));
            let found = (defaults.execute.open_files, defaults.execute.space);
            assert_eq!(found, (Some(open_files), Some(space)), "{capacity:?}");
        };
        check(Capacity::UNKNOWN, 1024, 256 << 20);
        check(CAPACITY, 602, 256 << 20);
        let small = Capacity {
            memory: 512 << 20,
            ..CAPACITY
        };
        check(small, 602, 128 << 20);
    }

    #[test]
    fn only_requested_limits_are_requested_again() {
        let policy = LimitPolicy::default();
        let sources = LimitSources {
            policy: &policy,
            language: None,
            capacity: CAPACITY,
        };
        let check = |compile: Option<Limits>, execute: Limits| {
            let requested = StepLimits { compile, execute };
            let limits = sources.resolve(&requested).unwrap();
            assert_eq!(sources.requested(&limits), requested);
        };
        let none = Limits::default();
        check(None, none);
        check(Some(none), none);
        // The open files of each follow from the processes.
        let processes = Limits {
            processes: Some(1000),
            ..none
        };
        check(None, processes);
        check(Some(processes), none);
        check(
            None,
            Limits {
                open_files: Some(100),
                ..processes
            },
        );
        // The space follows from the memory.
        check(
            None,
            Limits {
                memory: Some(3900 << 20),
                ..none
            },
        );
    }
}
