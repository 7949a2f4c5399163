//! The operator's limits: the defaults, and the maxima that a step may request. The capacity of the executors bounds both.

mod cases;

use std::time::Duration;

use crate::{Capacity, CompileStep, InvalidField, LanguageLimits, Limits, TaskSpec};

/// The operator's default and maximum resource limits for the steps of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    pub default: Limits,
    pub max: Limits,
    /// Whether a step with many processes gets fewer open files for each of them, so that all tasks together stay within
    /// the capacity of the machine. False if the operator has configured a number.
    pub divide_open_files: bool,
}

impl Default for LimitPolicy {
    fn default() -> LimitPolicy {
        LimitPolicy {
            default: Limits {
                wall: Some(Duration::from_secs(60)),
                memory: Some(1 << 30),
                processes: Some(512),
                open_files: Some(1024),
                space: Some(256 << 20),
                ..Limits::default()
            },
            max: Limits {
                wall: Some(Duration::from_secs(24 * 3600)),
                output: Some(16 << 20),
                open_files: Some(1024),
                ..Limits::default()
            },
            divide_open_files: true,
        }
    }
}

impl LimitPolicy {
    /// Fills in the limits that the task does not set, with the defaults of its language if it has one. Refuses limits
    /// above the maxima, and limits that no executor can give.
    pub fn apply(
        &self,
        spec: &mut TaskSpec,
        language: Option<&LanguageLimits>,
        capacity: &Capacity,
    ) -> Result<(), InvalidField> {
        let with_defaults = |default| LimitPolicy { default, ..*self };
        let [compile_policy, execute_policy] = match language {
            Some(limits) => [limits.compile, limits.execute]
                .map(|own| with_defaults(limits.defaults(&own, &self.default))),
            None => [*self; 2],
        };
        self.set_wall_backstops(spec);
        let requested = spec.space();
        let requested_memory = [
            spec.compile.as_ref().and_then(|step| step.limits.memory),
            spec.execute.limits.memory,
        ];
        if let Some(compile) = &mut spec.compile {
            compile.limits = compile_policy
                .resolve_within(compile.limits, capacity)
                .map_err(|invalid| invalid.within("compile.limits"))?;
        }
        spec.execute.limits = execute_policy
            .resolve_within(spec.execute.limits, capacity)
            .map_err(|invalid| invalid.within("execute.limits"))?;
        // The steps share their files. So the default for one step must not reduce what the other one requests.
        let compile_space = spec.compile.as_ref().and_then(|step| step.limits.space);
        let space = requested.or(compile_space
            .max(spec.execute.limits.space)
            .map(|space| space.min(capacity.space_beside(requested_memory))));
        let memory = |limits: &Limits, requested: Option<u64>| {
            requested.or(limits
                .memory
                .map(|memory| memory.min(capacity.memory_beside(space))))
        };
        let [compile_memory, execute_memory] = requested_memory;
        if let Some(CompileStep { limits, .. }) = &mut spec.compile {
            (limits.memory, limits.space) = (memory(limits, compile_memory), space);
        }
        let limits = &mut spec.execute.limits;
        (limits.memory, limits.space) = (memory(limits, execute_memory), space);
        capacity.check(spec)?;
        execute_policy.check_cases(spec, capacity)
    }

    /// Refuses limits of zero, under which nothing can run.
    pub(crate) fn refuse_nothing(&self, limits: &Limits) -> Result<(), InvalidField> {
        let unbounded = LimitPolicy {
            default: Limits::default(),
            max: Limits::default(),
            divide_open_files: false,
        };
        unbounded.resolve(*limits).map(|_| ())
    }

    fn resolve_within(&self, requested: Limits, capacity: &Capacity) -> Result<Limits, InvalidField> {
        let mut limits = self.resolve(requested)?;
        if requested.processes.is_none() {
            limits.processes = limits.processes.map(|default| default.min(capacity.processes));
        }
        let (true, Some(processes)) = (self.divide_open_files, limits.processes) else {
            return Ok(limits);
        };
        let most = capacity.open_files_for(processes);
        match requested.open_files {
            Some(files) if files > most => Err(InvalidField::over_limit(
                "open_files",
                format!(
                    "is more than each of {processes} processes may have; request fewer files or fewer processes"
                ),
                most,
                files,
            )),
            Some(_) => Ok(limits),
            None => {
                limits.open_files = limits.open_files.map(|files| files.min(most));
                Ok(limits)
            }
        }
    }

    /// The limits of one step, without regard to the capacity of the executors.
    pub fn resolve(&self, requested: Limits) -> Result<Limits, InvalidField> {
        let Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
            file_size,
            open_files,
            stack,
            space,
        } = requested;
        let LimitPolicy { default, max, .. } = self;
        let span = |span: Duration| format!("{}s", span.as_secs_f64());
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let count = |count: u32| count.to_string();
        Ok(Limits {
            wall: bound("wall", wall, default.wall, max.wall, span)?,
            cpu: bound("cpu", cpu, default.cpu, max.cpu, span)?,
            memory: bound("memory", memory, default.memory, max.memory, bytes)?,
            output: bound("output", output, default.output, max.output, bytes)?
                // A step without an output limit is not ended: its output is truncated at the operator's maximum.
                .filter(|_| output.or(default.output).is_some()),
            processes: bound("processes", processes, default.processes, max.processes, count)?,
            file_size: bound("file_size", file_size, default.file_size, max.file_size, bytes)?,
            open_files: bound(
                "open_files",
                open_files,
                default.open_files,
                max.open_files,
                count,
            )?,
            stack: bound("stack", stack, default.stack, max.stack, bytes)?,
            space: bound("space", space, default.space, max.space, bytes)?,
        })
    }
}

fn bound<T: Ord + Copy + Default>(
    field: &str,
    requested: Option<T>,
    default: Option<T>,
    max: Option<T>,
    show: impl Fn(T) -> String,
) -> Result<Option<T>, InvalidField> {
    match (requested, max) {
        (Some(requested), _) if requested == T::default() => Err(InvalidField::new(
            field,
            "must be more than zero; leave it out for the default",
        )),
        (Some(requested), Some(max)) if requested > max => Err(InvalidField::over_limit(
            field,
            "is more than the operator allows",
            show(max),
            show(requested),
        )),
        (Some(requested), _) => Ok(Some(requested)),
        // The maximum also applies to steps that request nothing, and to a default above it.
        (None, Some(max)) => Ok(Some(default.map_or(max, |default| default.min(max)))),
        (None, None) => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StepCommand, UserName};

    const CAPACITY: Capacity = Capacity {
        memory: 4 << 30,
        processes: 8192,
        open_files: 300_000,
    };

    #[test]
    fn defaults_apply_and_maxima_are_enforced() {
        let policy = LimitPolicy {
            default: Limits {
                wall: Some(Duration::from_secs(5)),
                processes: Some(9),
                ..Limits::default()
            },
            max: Limits {
                wall: Some(Duration::from_secs(10)),
                cpu: Some(Duration::from_secs(8)),
                output: Some(1000),
                processes: Some(4),
                ..Limits::default()
            },
            divide_open_files: false,
        };
        let check = |requested: Limits, expected: Result<Limits, &str>| {
            assert_eq!(
                policy.resolve(requested).map_err(|invalid| invalid.field),
                expected.map_err(String::from)
            );
        };
        let wall = |seconds| Some(Duration::from_secs(seconds));
        check(
            Limits::default(),
            Ok(Limits {
                wall: wall(5),
                cpu: wall(8),
                processes: Some(4),
                ..Limits::default()
            }),
        );
        check(
            Limits {
                wall: wall(10),
                memory: Some(1),
                output: Some(9),
                ..Limits::default()
            },
            Ok(Limits {
                wall: wall(10),
                cpu: wall(8),
                memory: Some(1),
                output: Some(9),
                processes: Some(4),
                ..Limits::default()
            }),
        );
        check(
            Limits {
                wall: wall(11),
                ..Limits::default()
            },
            Err("wall"),
        );
        check(
            Limits {
                wall: wall(0),
                ..Limits::default()
            },
            Err("wall"),
        );
        check(
            Limits {
                processes: Some(5),
                ..Limits::default()
            },
            Err("processes"),
        );
    }

    #[test]
    fn file_and_stack_limits_have_defaults_and_maxima() {
        let all = |factor: u32| {
            let bytes = |number: u64| Some(number * u64::from(factor));
            Limits {
                file_size: bytes(1),
                open_files: Some(2 * factor),
                stack: bytes(3),
                space: bytes(4),
                ..Limits::default()
            }
        };
        let (default, max) = (all(10), all(100));
        let policy = LimitPolicy {
            default,
            max,
            divide_open_files: false,
        };
        assert_eq!(policy.resolve(Limits::default()), Ok(default));
        assert_eq!(policy.resolve(all(1)), Ok(all(1)));
        assert_eq!(policy.resolve(max), Ok(max));
        let check = |change: fn(&mut Limits), field: &str, limit: &str, actual: &str| {
            let mut requested = max;
            change(&mut requested);
            let problem = "is more than the operator allows";
            assert_eq!(
                policy.resolve(requested),
                Err(InvalidField::over_limit(field, problem, limit, actual))
            );
        };
        check(|l| l.file_size = Some(101), "file_size", "100 bytes", "101 bytes");
        check(|l| l.open_files = Some(201), "open_files", "200", "201");
        check(|l| l.stack = Some(301), "stack", "300 bytes", "301 bytes");
        check(|l| l.space = Some(401), "space", "400 bytes", "401 bytes");
    }

    #[test]
    fn open_files_are_divided_by_the_number_of_processes() {
        let policy = LimitPolicy::default();
        let check = |processes: Option<u32>, files: Option<u32>, expected: Result<u32, &str>| {
            let requested = Limits {
                processes,
                open_files: files,
                ..Limits::default()
            };
            let found = policy.resolve_within(requested, &CAPACITY);
            let found = found
                .map(|limits| limits.open_files.unwrap_or(0))
                .map_err(|invalid| invalid.to_string());
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, expected) => panic!("{found:?} and not {expected:?}"),
            }
        };
        check(None, None, Ok(585));
        check(Some(100), None, Ok(1024));
        check(Some(3000), None, Ok(100));
        check(Some(3000), Some(50), Ok(50));
        check(Some(3000), Some(101), Err("each of 3000 processes"));
        check(Some(1), Some(1025), Err("more than the operator allows"));
    }

    /// On a small machine a task that requests nothing gets less than the default, and is not refused.
    #[test]
    fn default_memory_and_space_fit_into_the_capacity() {
        const MIB: u64 = 1 << 20;
        let check = |capacity: u64, requested: (Option<u64>, Option<u64>), expected: Option<(u64, u64)>| {
            let capacity = Capacity {
                memory: capacity * MIB,
                ..CAPACITY
            };
            let (memory, space) = requested;
            let limits = Limits {
                memory: memory.map(|memory| memory * MIB),
                space: space.map(|space| space * MIB),
                ..Limits::default()
            };
            let mut spec = spec(Limits::default(), limits);
            let found = LimitPolicy::default().apply(&mut spec, None, &capacity);
            let Limits { memory, space, .. } = spec.execute.limits;
            let given = (memory.unwrap_or(0) / MIB, space.unwrap_or(0) / MIB);
            assert_eq!(
                found.is_ok().then_some(given),
                expected,
                "{capacity:?} {requested:?}"
            );
        };
        check(4096, (None, None), Some((1024, 256)));
        check(800, (None, None), Some((600, 200)));
        check(800, (Some(700), None), Some((700, 100)));
        check(800, (None, Some(700)), Some((100, 700)));
        check(800, (Some(784), None), Some((784, 16)));
        check(800, (Some(785), None), None);
        check(800, (None, Some(785)), None);
        check(800, (Some(400), Some(401)), None);
    }

    /// A container may allow fewer processes than the default of a task.
    #[test]
    fn default_processes_fit_into_the_capacity() {
        let check = |capacity: u32, requested: Option<u32>, expected: Option<u32>| {
            let capacity = Capacity {
                processes: capacity,
                ..CAPACITY
            };
            let limits = Limits {
                processes: requested,
                ..Limits::default()
            };
            let mut spec = spec(Limits::default(), limits);
            let found = LimitPolicy::default().apply(&mut spec, None, &capacity);
            let given = found.ok().and(spec.execute.limits.processes);
            assert_eq!(given, expected, "{requested:?} of {capacity:?}");
        };
        check(8192, None, Some(512));
        check(128, None, Some(128));
        check(128, Some(128), Some(128));
        check(128, Some(129), None);
    }

    #[test]
    fn the_larger_space_applies_to_both_steps() {
        let with = |space| Limits {
            space,
            ..Limits::default()
        };
        let policy = LimitPolicy {
            default: with(Some(50)),
            max: with(Some(100)),
            divide_open_files: false,
        };
        let check = |compile: Option<u64>, execute: Option<u64>, expected: Result<u64, &str>| {
            let mut spec = spec(with(compile), with(execute));
            let found = policy.apply(&mut spec, None, &CAPACITY).map(|()| {
                let compile = spec.compile.as_ref().and_then(|step| step.limits.space);
                assert_eq!(compile, spec.execute.limits.space);
                spec.space()
            });
            assert_eq!(
                found.map_err(|invalid| invalid.field),
                expected.map(Some).map_err(String::from)
            );
        };
        check(None, None, Ok(50));
        check(Some(7), None, Ok(7));
        check(None, Some(7), Ok(7));
        check(Some(70), Some(7), Ok(70));
        check(Some(7), Some(70), Ok(70));
        check(Some(101), Some(7), Err("compile.limits.space"));
        check(None, Some(101), Err("execute.limits.space"));
        check(Some(0), Some(7), Err("compile.limits.space"));
    }

    fn spec(compile: Limits, execute: Limits) -> TaskSpec {
        let mut spec = TaskSpec::new(UserName::new("ada").unwrap(), StepCommand::Shell("true".into()));
        spec.compile = Some(CompileStep {
            command: StepCommand::Shell("cc".into()),
            env: [].into(),
            network: None,
            limits: compile,
        });
        spec.execute.limits = execute;
        spec
    }
}
