//! What an executor can give to one task, and whether a task requests more.

use crate::{InvalidField, LimitPolicy, Limits, TaskSpec};

/// The resources that one slot of an executor can give to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of memory and of files together, because a task's files are in memory.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// Files that all processes of the task together may have open.
    pub open_files: u64,
}

/// The resources that a task requests of an executor's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Bytes of memory and of files together, of the step that requests most.
    pub memory: u64,
    pub processes: u32,
}

impl ResourceRequest {
    pub fn of(spec: &TaskSpec) -> ResourceRequest {
        let steps = spec.compile.iter().map(|step| &step.limits);
        let of_step = |limits: &Limits| ResourceRequest {
            memory: memory_and_space(limits),
            processes: limits.processes.unwrap_or(0),
        };
        let larger = |one: ResourceRequest, other: ResourceRequest| ResourceRequest {
            memory: one.memory.max(other.memory),
            processes: one.processes.max(other.processes),
        };
        let execute = of_step(&spec.execute.limits);
        let judging = || spec.judging.iter();
        let cases = judging().flat_map(|judging| &judging.cases);
        let cases = cases.map(|case| of_step(&case.limits.or(spec.execute.limits)));
        let program = judging().filter_map(|judging| judging.check.program());
        let program = program.flat_map(|program| {
            let compile = program.compile.iter().map(|step| of_step(&step.limits));
            compile.chain([of_step(&program.execute.limits)])
        });
        steps
            .map(of_step)
            .chain(cases)
            .chain(program)
            .fold(execute, larger)
    }
}

fn memory_and_space(limits: &Limits) -> u64 {
    let (memory, space) = (limits.memory.unwrap_or(0), limits.space.unwrap_or(0));
    memory.saturating_add(space)
}

/// If a task requests only one of memory and space, it gets at least this much of the other. Less would be useless.
const MIN_UNREQUESTED: u64 = 16 << 20;
/// The fewest open files of a process: a program needs its streams and a few files and libraries.
pub const MIN_OPEN_FILES_PER_PROCESS: u64 = 16;

impl Capacity {
    /// For an executor that does not report its capacity: it can take any task.
    pub const UNKNOWN: Capacity = Capacity {
        memory: u64::MAX,
        processes: u32::MAX,
        open_files: u64::MAX,
    };

    /// What a set of executors can give to one task: the most memory and the most processes that any of them has. Of open
    /// files it is the fewest, because most tasks use the default, and any of the executors may get the task. An executor
    /// that does not report its capacity may be the largest.
    pub fn combined(capacities: impl IntoIterator<Item = Option<Capacity>>) -> Option<Capacity> {
        let capacities = capacities
            .into_iter()
            .map(|reported| reported.unwrap_or(Capacity::UNKNOWN));
        capacities.reduce(|one, other| Capacity {
            memory: one.memory.max(other.memory),
            processes: one.processes.max(other.processes),
            open_files: one.open_files.min(other.open_files),
        })
    }

    /// The largest request that an executor with this capacity claims, while a larger executor is live. It covers at least
    /// the default limits. The largest live executor claims any task, so that no task waits for a machine that is gone.
    pub fn claim_limit(self) -> Capacity {
        let usual = LimitPolicy::default().default;
        Capacity {
            memory: self.memory.max(memory_and_space(&usual)),
            processes: self.processes.max(usual.processes.unwrap_or(0)),
            ..self
        }
    }

    pub fn fits(&self, request: ResourceRequest) -> bool {
        request.memory <= self.memory && request.processes <= self.processes
    }

    /// The most memory that a task can request, so that the minimum of space is left. The same holds for space.
    pub fn max_memory(&self) -> u64 {
        self.memory.saturating_sub(MIN_UNREQUESTED)
    }

    /// The space of a task that requests none, given the memory that its steps request.
    pub(crate) fn space_beside(&self, requested_memory: [Option<u64>; 2]) -> u64 {
        let available = match requested_memory.into_iter().flatten().max() {
            Some(requested) => self.memory.saturating_sub(requested),
            None => self.memory / 4,
        };
        available.max(MIN_UNREQUESTED)
    }

    /// The memory of a step that requests none, given the space of its task.
    pub(crate) fn memory_beside(&self, space: Option<u64>) -> u64 {
        self.memory
            .saturating_sub(space.unwrap_or(0))
            .max(MIN_UNREQUESTED)
    }

    /// How many files each of `processes` may have open.
    pub fn open_files_for(&self, processes: u32) -> u32 {
        let each = self.open_files / u64::from(processes.max(1));
        u32::try_from(each.max(MIN_OPEN_FILES_PER_PROCESS)).unwrap_or(u32::MAX)
    }

    /// Refuses a task that requests more than any executor can give. The limits of the spec must include the defaults.
    pub fn check(&self, spec: &TaskSpec) -> Result<(), InvalidField> {
        if let Some(compile) = &spec.compile {
            self.check_step(&compile.limits)
                .map_err(|invalid| invalid.within("compile.limits"))?;
        }
        self.check_step(&spec.execute.limits)
            .map_err(|invalid| invalid.within("execute.limits"))
    }

    pub(crate) fn check_step(&self, limits: &Limits) -> Result<(), InvalidField> {
        const BEYOND: &str = "is more than any executor can give";
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let (memory, space) = (limits.memory.unwrap_or(0), limits.space.unwrap_or(0));
        for (field, requested) in [("memory", memory), ("space", space)] {
            if requested > self.memory {
                return Err(InvalidField::over_limit(
                    field,
                    BEYOND,
                    bytes(self.memory),
                    bytes(requested),
                ));
            }
        }
        let both = memory_and_space(limits);
        if both > self.memory {
            return Err(InvalidField::over_limit(
                "memory",
                "and space together are more than any executor can give: files are in memory",
                bytes(self.memory),
                bytes(both),
            ));
        }
        if let Some(processes) = limits.processes
            && processes > self.processes
        {
            return Err(InvalidField::over_limit(
                "processes",
                BEYOND,
                self.processes,
                processes,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Capacity = Capacity {
        memory: 1000,
        processes: 10,
        open_files: 640,
    };

    #[test]
    fn the_error_names_what_no_executor_can_give() {
        let check = |memory: Option<u64>,
                     space: Option<u64>,
                     processes: Option<u32>,
                     expected: Option<(&str, &str, &str)>| {
            let limits = Limits {
                memory,
                space,
                processes,
                ..Limits::default()
            };
            let found = CAPACITY.check_step(&limits).map_err(|invalid| {
                let amount = |text: Option<String>| text.unwrap_or_default();
                (invalid.field, amount(invalid.limit), amount(invalid.actual))
            });
            let owned = |(field, limit, actual): (&str, &str, &str)| {
                (field.to_string(), limit.to_string(), actual.to_string())
            };
            assert_eq!(found, expected.map_or(Ok(()), |expected| Err(owned(expected))));
        };
        check(None, None, None, None);
        check(Some(600), Some(400), Some(10), None);
        check(
            Some(600),
            Some(401),
            None,
            Some(("memory", "1000 bytes", "1001 bytes")),
        );
        check(
            Some(1001),
            None,
            None,
            Some(("memory", "1000 bytes", "1001 bytes")),
        );
        check(
            Some(1),
            Some(u64::MAX),
            None,
            Some(("space", "1000 bytes", &format!("{} bytes", u64::MAX))),
        );
        check(None, None, Some(11), Some(("processes", "10", "11")));
    }

    #[test]
    fn one_executor_with_enough_capacity_is_enough() {
        assert_eq!(Capacity::combined([]), None);
        let other = Capacity {
            memory: 5,
            processes: 50,
            open_files: 1024,
        };
        assert_eq!(CAPACITY.open_files_for(10), 64);
        assert_eq!(CAPACITY.open_files_for(1000), 16);
        let expected = Capacity {
            memory: 1000,
            processes: 50,
            open_files: 640,
        };
        assert_eq!(Capacity::combined([Some(other), Some(CAPACITY)]), Some(expected));
    }

    #[test]
    fn every_executor_claims_tasks_with_default_limits() {
        let request = |memory, processes| ResourceRequest { memory, processes };
        let (usual, processes) = ((1 << 30) + (256 << 20), 512);
        let small = CAPACITY.claim_limit();
        assert!(small.fits(ResourceRequest::default()));
        assert!(small.fits(request(usual, processes)));
        assert!(!small.fits(request(usual + 1, processes)));
        assert!(!small.fits(request(usual, processes + 1)));
        let large = Capacity {
            memory: 8 << 30,
            processes: 4096,
            ..CAPACITY
        };
        assert!(large.claim_limit().fits(request(8 << 30, 4096)));
        assert!(!large.claim_limit().fits(request((8 << 30) + 1, 1)));
    }

    /// In a rolling upgrade, the first executor that reports its capacity may be the smallest.
    #[test]
    fn an_executor_without_a_reported_capacity_may_be_the_largest() {
        let expected = Capacity {
            open_files: 640,
            ..Capacity::UNKNOWN
        };
        assert_eq!(Capacity::combined([None, Some(CAPACITY)]), Some(expected));
        assert_eq!(Capacity::combined([None, None]), Some(Capacity::UNKNOWN));
        let most = Limits {
            memory: Some(u64::MAX),
            space: Some(u64::MAX),
            processes: Some(u32::MAX),
            ..Limits::default()
        };
        assert_eq!(expected.check_step(&most), Ok(()));
    }

    #[test]
    fn a_sum_that_overflows_is_more_than_any_executor_has() {
        let huge = Capacity {
            memory: u64::MAX - 1,
            ..CAPACITY
        };
        let requested = Limits {
            memory: Some(u64::MAX - 1),
            space: Some(2),
            ..Limits::default()
        };
        assert!(huge.check_step(&requested).is_err());
    }
}
