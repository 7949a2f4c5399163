//! The operator's word on limits: what a step gets when it asks for nothing, and the most it may ask for. What the
//! machines can give bounds both.

use std::time::Duration;

use crate::{Capacity, CompileStep, Invalid, Limits, TaskSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    pub default: Limits,
    pub max: Limits,
    /// A step with many processes gets fewer open files for each, so that all tasks together stay within what the machine
    /// has for them. Not so where the operator has chosen a number.
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
    /// Fills in what the task left open; complains about what it may not ask for, and about what no executor can give.
    pub fn apply(&self, spec: &mut TaskSpec, capacity: &Capacity) -> Result<(), Invalid> {
        let asked = spec.space();
        let asked_memory = [
            spec.compile.as_ref().and_then(|step| step.limits.memory),
            spec.execute.limits.memory,
        ];
        if let Some(compile) = &mut spec.compile {
            compile.limits = self
                .resolve_within(compile.limits, capacity)
                .map_err(|invalid| invalid.within("compile.limits"))?;
        }
        spec.execute.limits = self
            .resolve_within(spec.execute.limits, capacity)
            .map_err(|invalid| invalid.within("execute.limits"))?;
        // The steps share their files: what one of them asked for is not undone by what the other was given unasked.
        let space = asked.or(spec
            .execute
            .limits
            .space
            .map(|space| space.min(capacity.space_beside(asked_memory))));
        let memory = |limits: &Limits, asked: Option<u64>| {
            asked.or(limits
                .memory
                .map(|memory| memory.min(capacity.memory_beside(space))))
        };
        let [compile_memory, execute_memory] = asked_memory;
        if let Some(CompileStep { limits, .. }) = &mut spec.compile {
            (limits.memory, limits.space) = (memory(limits, compile_memory), space);
        }
        let limits = &mut spec.execute.limits;
        (limits.memory, limits.space) = (memory(limits, execute_memory), space);
        capacity.check(spec)
    }

    fn resolve_within(&self, asked: Limits, capacity: &Capacity) -> Result<Limits, Invalid> {
        let mut limits = self.resolve(asked)?;
        if asked.processes.is_none() {
            limits.processes = limits.processes.map(|default| default.min(capacity.processes));
        }
        let (true, Some(processes)) = (self.divide_open_files, limits.processes) else {
            return Ok(limits);
        };
        let most = capacity.open_files_for(processes);
        match asked.open_files {
            Some(files) if files > most => Err(Invalid::beyond(
                "open_files",
                format!("is more than each of {processes} processes may have; ask for fewer of either"),
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

    /// The limits of one step, without a look at what the machines can give.
    pub fn resolve(&self, asked: Limits) -> Result<Limits, Invalid> {
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
        } = asked;
        let LimitPolicy { default, max, .. } = self;
        let span = |span: Duration| format!("{}s", span.as_secs_f64());
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let count = |count: u32| count.to_string();
        Ok(Limits {
            wall: bound("wall", wall, default.wall, max.wall, span)?,
            cpu: bound("cpu", cpu, default.cpu, max.cpu, span)?,
            memory: bound("memory", memory, default.memory, max.memory, bytes)?,
            output: bound("output", output, default.output, max.output, bytes)?
                // Without a limit, output beyond the operator's cap is cut off and the step goes on: that is bound enough.
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
    asked: Option<T>,
    default: Option<T>,
    max: Option<T>,
    show: impl Fn(T) -> String,
) -> Result<Option<T>, Invalid> {
    match (asked, max) {
        (Some(asked), _) if asked == T::default() => Err(Invalid::new(
            field,
            "must be more than zero; leave it out for the default",
        )),
        (Some(asked), Some(max)) if asked > max => Err(Invalid::beyond(
            field,
            "is more than the operator allows",
            show(max),
            show(asked),
        )),
        (Some(asked), _) => Ok(Some(asked)),
        // The maximum holds for those who ask for nothing, too; and a default above it is the operator's slip.
        (None, Some(max)) => Ok(Some(default.map_or(max, |default| default.min(max)))),
        (None, None) => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Content, ExecuteStep, UserName};

    const CAPACITY: Capacity = Capacity {
        memory: 4 << 30,
        processes: 8192,
        open_files: 300_000,
    };

    #[test]
    fn defaults_fill_and_maxima_hold() {
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
        let check = |asked: Limits, expected: Result<Limits, &str>| {
            assert_eq!(
                policy.resolve(asked).map_err(|invalid| invalid.field),
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
    fn limits_of_files_and_stack_have_theirs_too() {
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
            let mut asked = max;
            change(&mut asked);
            let problem = "is more than the operator allows";
            assert_eq!(
                policy.resolve(asked),
                Err(Invalid::beyond(field, problem, limit, actual))
            );
        };
        check(|l| l.file_size = Some(101), "file_size", "100 bytes", "101 bytes");
        check(|l| l.open_files = Some(201), "open_files", "200", "201");
        check(|l| l.stack = Some(301), "stack", "300 bytes", "301 bytes");
        check(|l| l.space = Some(401), "space", "400 bytes", "401 bytes");
    }

    #[test]
    fn open_files_are_divided_by_processes() {
        let policy = LimitPolicy::default();
        let check = |processes: Option<u32>, files: Option<u32>, expected: Result<u32, &str>| {
            let asked = Limits {
                processes,
                open_files: files,
                ..Limits::default()
            };
            let found = policy.resolve_within(asked, &CAPACITY);
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

    /// On a small machine a task that asks for nothing gets less, instead of being refused.
    #[test]
    fn defaults_fit_into_what_can_be_given() {
        const MIB: u64 = 1 << 20;
        let check = |capacity: u64, asked: (Option<u64>, Option<u64>), expected: Option<(u64, u64)>| {
            let capacity = Capacity {
                memory: capacity * MIB,
                ..CAPACITY
            };
            let (memory, space) = asked;
            let limits = Limits {
                memory: memory.map(|memory| memory * MIB),
                space: space.map(|space| space * MIB),
                ..Limits::default()
            };
            let mut spec = spec(Limits::default(), limits);
            let found = LimitPolicy::default().apply(&mut spec, &capacity);
            let Limits { memory, space, .. } = spec.execute.limits;
            let given = (memory.unwrap_or(0) / MIB, space.unwrap_or(0) / MIB);
            assert_eq!(found.is_ok().then_some(given), expected, "{capacity:?} {asked:?}");
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

    /// A container may allow fewer processes than a task has by default.
    #[test]
    fn default_processes_fit_into_what_can_be_given() {
        let check = |capacity: u32, asked: Option<u32>, expected: Option<u32>| {
            let capacity = Capacity {
                processes: capacity,
                ..CAPACITY
            };
            let limits = Limits {
                processes: asked,
                ..Limits::default()
            };
            let mut spec = spec(Limits::default(), limits);
            let found = LimitPolicy::default().apply(&mut spec, &capacity);
            let given = found.ok().and(spec.execute.limits.processes);
            assert_eq!(given, expected, "{asked:?} of {capacity:?}");
        };
        check(8192, None, Some(512));
        check(128, None, Some(128));
        check(128, Some(128), Some(128));
        check(128, Some(129), None);
    }

    #[test]
    fn the_larger_space_is_that_of_both_steps() {
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
            let found = policy.apply(&mut spec, &CAPACITY).map(|()| {
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
        TaskSpec {
            user: UserName::new("ada").unwrap(),
            priority: 0,
            compile: Some(CompileStep {
                command: Command::Shell("cc".into()),
                env: [].into(),
                network: None,
                limits: compile,
            }),
            execute: ExecuteStep {
                command: Command::Shell("true".into()),
                args: vec![],
                env: [].into(),
                input: Content::empty(),
                network: None,
                limits: execute,
            },
            source: [].into(),
            data: [].into(),
        }
    }
}
