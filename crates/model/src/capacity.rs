//! What an executor can give to one task, and whether a task asks for more.

use crate::{Invalid, LimitPolicy, Limits, TaskSpec};

/// The most that one task can have in a slot of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of memory and of files together: a task's files are in memory.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// Files that all processes of the task together may have open.
    pub open_files: u64,
}

/// What a task needs of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes of memory and of files together, of the step that asks for most.
    pub memory: u64,
    pub processes: u32,
}

impl Need {
    pub fn of(spec: &TaskSpec) -> Need {
        let steps = spec.compile.iter().map(|step| &step.limits);
        let need = |limits: &Limits| Need {
            memory: memory_and_space(limits),
            processes: limits.processes.unwrap_or(0),
        };
        let more = |one: Need, other: Need| Need {
            memory: one.memory.max(other.memory),
            processes: one.processes.max(other.processes),
        };
        steps.map(need).fold(need(&spec.execute.limits), more)
    }
}

fn memory_and_space(limits: &Limits) -> u64 {
    let (memory, space) = (limits.memory.unwrap_or(0), limits.space.unwrap_or(0));
    memory.saturating_add(space)
}

/// What is left of a task's memory and space for the one that it does not ask for, at least. Less is of no use.
const LEAST: u64 = 16 << 20;
/// Of each process. A program needs its streams and a few files and libraries.
pub const FEWEST_OPEN_FILES: u64 = 16;

impl Capacity {
    /// Of an executor that has not said what it can give: nothing is refused because of it.
    pub const UNKNOWN: Capacity = Capacity {
        memory: u64::MAX,
        processes: u32::MAX,
        open_files: u64::MAX,
    };

    /// What a set of executors can give: each amount is what one of them has. Open files, which most tasks leave to the
    /// default, are what each of them has, as any of them may be handed the task. One that says nothing may be the largest.
    pub fn of_all(capacities: impl IntoIterator<Item = Option<Capacity>>) -> Option<Capacity> {
        let capacities = capacities
            .into_iter()
            .map(|told| told.unwrap_or(Capacity::UNKNOWN));
        capacities.reduce(|one, other| Capacity {
            memory: one.memory.max(other.memory),
            processes: one.processes.max(other.processes),
            open_files: one.open_files.min(other.open_files),
        })
    }

    /// Which waiting tasks an executor with this capacity is handed, where there is a live one that has more or does not
    /// say. What a task has by default is never too much. The largest is handed any, so that none waits for a machine that
    /// is not there.
    pub fn claims(self) -> Capacity {
        let usual = LimitPolicy::default().default;
        Capacity {
            memory: self.memory.max(memory_and_space(&usual)),
            processes: self.processes.max(usual.processes.unwrap_or(0)),
            ..self
        }
    }

    pub fn covers(&self, need: Need) -> bool {
        need.memory <= self.memory && need.processes <= self.processes
    }

    /// The most memory that a task can have which leaves the least space, and the other way round.
    pub fn most_memory(&self) -> u64 {
        self.memory.saturating_sub(LEAST)
    }

    /// How much space a task may have that asks for none, beside the memory that its steps ask for.
    pub(crate) fn space_beside(&self, asked_memory: [Option<u64>; 2]) -> u64 {
        let room = match asked_memory.into_iter().flatten().max() {
            Some(asked) => self.memory.saturating_sub(asked),
            None => self.memory / 4,
        };
        room.max(LEAST)
    }

    /// How much memory a step may have that asks for none, beside the space of its task.
    pub(crate) fn memory_beside(&self, space: Option<u64>) -> u64 {
        self.memory.saturating_sub(space.unwrap_or(0)).max(LEAST)
    }

    /// How many files each of so many processes may have open.
    pub fn open_files_for(&self, processes: u32) -> u32 {
        let each = self.open_files / u64::from(processes.max(1));
        u32::try_from(each.max(FEWEST_OPEN_FILES)).unwrap_or(u32::MAX)
    }

    /// Complains about what no executor can give. The limits are those that apply, with the defaults filled in.
    pub fn check(&self, spec: &TaskSpec) -> Result<(), Invalid> {
        if let Some(compile) = &spec.compile {
            self.check_step(&compile.limits)
                .map_err(|invalid| invalid.within("compile.limits"))?;
        }
        self.check_step(&spec.execute.limits)
            .map_err(|invalid| invalid.within("execute.limits"))
    }

    fn check_step(&self, limits: &Limits) -> Result<(), Invalid> {
        const BEYOND: &str = "is more than any executor can give";
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let (memory, space) = (limits.memory.unwrap_or(0), limits.space.unwrap_or(0));
        for (field, asked) in [("memory", memory), ("space", space)] {
            if asked > self.memory {
                return Err(Invalid::beyond(field, BEYOND, bytes(self.memory), bytes(asked)));
            }
        }
        let both = memory_and_space(limits);
        if both > self.memory {
            return Err(Invalid::beyond(
                "memory",
                "and space together are more than any executor can give: files are in memory",
                bytes(self.memory),
                bytes(both),
            ));
        }
        if let Some(processes) = limits.processes
            && processes > self.processes
        {
            return Err(Invalid::beyond("processes", BEYOND, self.processes, processes));
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
    fn what_no_executor_can_give_is_named() {
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
    fn one_executor_that_can_give_it_is_enough() {
        assert_eq!(Capacity::of_all([]), None);
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
        assert_eq!(Capacity::of_all([Some(other), Some(CAPACITY)]), Some(expected));
    }

    #[test]
    fn what_a_task_has_by_default_is_handed_to_every_executor() {
        let need = |memory, processes| Need { memory, processes };
        let (usual, processes) = ((1 << 30) + (256 << 20), 512);
        let small = CAPACITY.claims();
        assert!(small.covers(Need::default()));
        assert!(small.covers(need(usual, processes)));
        assert!(!small.covers(need(usual + 1, processes)));
        assert!(!small.covers(need(usual, processes + 1)));
        let large = Capacity {
            memory: 8 << 30,
            processes: 4096,
            ..CAPACITY
        };
        assert!(large.claims().covers(need(8 << 30, 4096)));
        assert!(!large.claims().covers(need((8 << 30) + 1, 1)));
    }

    /// In a rolling upgrade, the first executor that tells its capacity may be the smallest.
    #[test]
    fn an_executor_that_says_nothing_may_be_the_largest() {
        let expected = Capacity {
            open_files: 640,
            ..Capacity::UNKNOWN
        };
        assert_eq!(Capacity::of_all([None, Some(CAPACITY)]), Some(expected));
        assert_eq!(Capacity::of_all([None, None]), Some(Capacity::UNKNOWN));
        let most = Limits {
            memory: Some(u64::MAX),
            space: Some(u64::MAX),
            processes: Some(u32::MAX),
            ..Limits::default()
        };
        assert_eq!(expected.check_step(&most), Ok(()));
    }

    #[test]
    fn a_sum_beyond_all_numbers_is_more_than_any_executor_has() {
        let huge = Capacity {
            memory: u64::MAX - 1,
            ..CAPACITY
        };
        let asked = Limits {
            memory: Some(u64::MAX - 1),
            space: Some(2),
            ..Limits::default()
        };
        assert!(huge.check_step(&asked).is_err());
    }
}
