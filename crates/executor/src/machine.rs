//! What this machine has, and what of it one task can be given.

mod groups;

use std::fs;
use std::path::Path;

use model::{Capacity, FEWEST_OPEN_FILES, LimitPolicy};

use self::groups::Groups;

/// Where the files of the kernel that tell it are.
const PROC: &str = "/proc";
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of memory that all processes together can have.
    pub memory: u64,
    /// Processes and threads that there can be at one time.
    pub processes: u64,
    /// Files that can be open at one time.
    pub open_files: u64,
}

/// How a machine is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub slots: u32,
    /// Bytes that tasks leave to everyone else.
    pub reserve: u64,
    /// Bytes that the operator gives to each slot; none is an equal share.
    pub slot_memory: Option<u64>,
}

impl Machine {
    /// What the kernel does not tell has no bound here.
    pub fn read() -> Machine {
        let proc = Path::new(PROC);
        let memory = memory_field(proc, "MemTotal").unwrap_or(u64::MAX);
        let [pids, threads] =
            ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(|file| number(&proc.join(file)));
        let groups = own_groups();
        let processes = [pids, threads, groups.process_limit()];
        Machine {
            memory: memory.min(groups.memory_limit().unwrap_or(u64::MAX)),
            processes: processes.into_iter().flatten().min().unwrap_or(u64::MAX),
            open_files: number(&proc.join("sys/fs/file-max")).unwrap_or(u64::MAX),
        }
    }

    /// A twentieth, but enough for the platform itself on a small machine, and no more than it needs on a large one.
    pub fn usual_reserve(&self) -> u64 {
        const LEAST: u64 = 256 << 20;
        const MOST: u64 = 2 << 30;
        whole_mebibytes((self.memory / 20).clamp(LEAST, MOST).min(self.memory / 8))
    }

    /// Equal shares. A machine with many slots gives each at least what a task has that asks for nothing: seldom do all
    /// tasks use all that they may, and the reserve holds if they do.
    pub fn capacity(&self, division: Division) -> Capacity {
        let Division {
            slots,
            reserve,
            slot_memory,
        } = division;
        let usual = LimitPolicy::default().default;
        let slots = u64::from(slots.max(1));
        let for_tasks = self.memory.saturating_sub(reserve);
        let usual_memory = usual.memory.unwrap_or(0) + usual.space.unwrap_or(0);
        let share = (for_tasks / slots).max(usual_memory.min(for_tasks));
        let memory = slot_memory.unwrap_or(share);

        let processes = (self.processes / 2 / slots).max(u64::from(usual.processes.unwrap_or(1)));
        // Else all tasks together could take the files of the whole machine.
        let open_files = self.open_files / 4 / slots;
        let with_files = (open_files / FEWEST_OPEN_FILES).max(1);
        let processes = processes.min(self.processes / 2).min(with_files);
        Capacity {
            memory: whole_mebibytes(memory),
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
            open_files,
        }
    }
}

/// How much memory could be used now without taking it from anybody.
#[derive(Debug)]
pub(crate) struct MemoryLook {
    proc: &'static Path,
    groups: Groups,
}

impl MemoryLook {
    pub(crate) fn new() -> MemoryLook {
        MemoryLook {
            proc: Path::new(PROC),
            groups: own_groups(),
        }
    }

    /// Bytes, of the machine or of the smallest control group around this process. None if the kernel does not tell.
    pub(crate) fn available(&self) -> Option<u64> {
        let machine = memory_field(self.proc, "MemAvailable");
        machine.into_iter().chain(self.groups.available_memory()).min()
    }
}

fn own_groups() -> Groups {
    Groups::find(Path::new(PROC), Path::new(CONTROL_GROUPS))
}

fn memory_field(proc: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn whole_mebibytes(bytes: u64) -> u64 {
    bytes >> 20 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(memory: u64) -> Machine {
        Machine {
            memory,
            processes: 32_768,
            open_files: 2_400_000,
        }
    }

    fn capacity(machine: Machine, slots: u32) -> Capacity {
        machine.capacity(Division {
            slots,
            reserve: machine.usual_reserve(),
            slot_memory: None,
        })
    }

    #[test]
    fn a_machine_is_shared_by_its_slots() {
        let check = |memory: u64, slots: u32, reserve: u64, expected: u64| {
            let machine = machine(memory);
            assert_eq!(machine.usual_reserve() >> 20, reserve, "reserve of {memory}");
            assert_eq!(
                capacity(machine, slots).memory >> 20,
                expected,
                "{memory}/{slots}"
            );
        };
        check(24 * GIB, 2, 1228, 11_674);
        check(24 * GIB, 1, 1228, 23_348);
        check(512 * GIB, 64, 2048, 8160);
        // Less than a task has by default would be of no use.
        check(64 * GIB, 64, 2048, 1280);
        check(4 * GIB, 8, 256, 1280);
        check(GIB, 4, 128, 896);
        check(GIB / 2, 1, 64, 448);
    }

    #[test]
    fn all_tasks_together_take_half_of_the_processes_and_a_quarter_of_the_files() {
        let check = |processes: u64, open_files: u64, slots: u32, expected: (u32, u64)| {
            let machine = Machine {
                memory: GIB,
                processes,
                open_files,
            };
            let found = capacity(machine, slots);
            assert_eq!(
                (found.processes, found.open_files),
                expected,
                "{machine:?} {slots}"
            );
        };
        check(32_768, 2_400_000, 2, (8192, 300_000));
        check(4_194_304, u64::MAX, 1, (2_097_152, u64::MAX / 4));
        // Fewer processes than a task has by default would be of no use.
        check(32_768, 2_400_000, 64, (512, 9375));
        // But each of them has some files.
        check(4_194_304, 2_400_000, 1, (37_500, 600_000));
        check(32_768, 64_000, 4, (250, 4000));
        check(32_768, 6400, 64, (1, 25));
        check(600, 64_000, 1, (300, 16_000));
    }

    /// Even where each process has no more files than a program needs.
    #[test]
    fn files_of_all_processes_stay_within_a_quarter() {
        for (open_files, slots) in [(52_000, 4), (8192, 2), (2_400_000, 1)] {
            let machine = Machine {
                open_files,
                ..machine(GIB)
            };
            let capacity = capacity(machine, slots);
            let each = u64::from(capacity.open_files_for(capacity.processes));
            let all = each * u64::from(capacity.processes) * u64::from(slots);
            assert!(all <= open_files / 4, "{all} of {open_files}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::read();
        assert!(machine.memory > 64 << 20 && machine.memory < u64::MAX);
        assert!(machine.processes >= 100 && machine.processes < u64::MAX);
        assert!(MemoryLook::new().available().is_some_and(|bytes| bytes > 0));
    }
}
