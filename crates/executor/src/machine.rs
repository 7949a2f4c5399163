//! The resources of this machine, and the share of them that one task can get.

mod cgroups;
mod load;

use std::fs;
use std::path::Path;

use model::{Capacity, LimitPolicy, MIN_OPEN_FILES_PER_PROCESS};

use self::cgroups::OwnCgroups;
pub(crate) use self::load::LoadProbe;

const PROC: &str = "/proc";
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The memory, process and open-file limits of this machine, or of the control groups that this process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineResources {
    /// Bytes of memory for all processes together.
    pub memory: u64,
    /// The maximum number of processes and threads.
    pub processes: u64,
    /// The maximum number of open files.
    pub open_files: u64,
}

/// How the operator divides an executor's machine into slots, each of which runs one task at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachinePartitioning {
    pub slots: u32,
    /// Bytes of memory that must stay available to other processes.
    pub reserve: u64,
    /// Bytes of memory for each slot; `None` for an equal share.
    pub slot_memory: Option<u64>,
}

impl MachineResources {
    /// Reads the limits from the kernel. A limit that cannot be read counts as unlimited.
    pub fn read() -> MachineResources {
        let proc = Path::new(PROC);
        let memory = memory_field(proc, "MemTotal").unwrap_or(u64::MAX);
        let [pids, threads] =
            ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(|file| read_number(&proc.join(file)));
        let cgroups = own_cgroups();
        let processes = [pids, threads, cgroups.process_limit()];
        MachineResources {
            memory: memory.min(cgroups.memory_limit().unwrap_or(u64::MAX)),
            processes: processes.into_iter().flatten().min().unwrap_or(u64::MAX),
            open_files: read_number(&proc.join("sys/fs/file-max")).unwrap_or(u64::MAX),
        }
    }

    /// A twentieth of the memory, but at least what Conclave itself needs, at most 2 GiB, and at most an eighth.
    pub fn default_memory_reserve(&self) -> u64 {
        const MIN: u64 = 256 << 20;
        const MAX: u64 = 2 << 30;
        whole_mebibytes((self.memory / 20).clamp(MIN, MAX).min(self.memory / 8))
    }

    /// What a slot can give to one task: an equal share, but at least the default limits of a task. With many slots the
    /// shares can add up to more than the machine has: tasks rarely use all of it, and the reserve is enforced if they do.
    pub fn capacity(&self, partitioning: MachinePartitioning) -> Capacity {
        let MachinePartitioning {
            slots,
            reserve,
            slot_memory,
        } = partitioning;
        let default = LimitPolicy::default().default;
        let slots = u64::from(slots.max(1));
        let for_tasks = self.memory.saturating_sub(reserve);
        let default_memory = default.memory.unwrap_or(0) + default.space.unwrap_or(0);
        let share = (for_tasks / slots).max(default_memory.min(for_tasks));
        let memory = slot_memory.unwrap_or(share);

        let processes = (self.processes / 2 / slots).max(u64::from(default.processes.unwrap_or(1)));
        // A quarter, so that all tasks together cannot use up the open files of the machine.
        let open_files = self.open_files / 4 / slots;
        let with_files = (open_files / MIN_OPEN_FILES_PER_PROCESS).max(1);
        let processes = processes.min(self.processes / 2).min(with_files);
        Capacity {
            memory: whole_mebibytes(memory),
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
            open_files,
        }
    }
}

/// Reads from `/proc` and the own cgroups how much memory is available now, for the executor's memory reserve.
#[derive(Debug)]
pub(crate) struct AvailableMemoryProbe {
    proc: &'static Path,
    cgroups: OwnCgroups,
}

impl AvailableMemoryProbe {
    pub(crate) fn new() -> AvailableMemoryProbe {
        AvailableMemoryProbe {
            proc: Path::new(PROC),
            cgroups: own_cgroups(),
        }
    }

    /// The available bytes of the machine, or of the control group of this process that has least. `None` if unknown.
    pub(crate) fn available(&self) -> Option<u64> {
        let machine = memory_field(self.proc, "MemAvailable");
        machine.into_iter().chain(self.cgroups.available_memory()).min()
    }
}

fn own_cgroups() -> OwnCgroups {
    OwnCgroups::find(Path::new(PROC), Path::new(CONTROL_GROUPS))
}

fn memory_field(proc: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn whole_mebibytes(bytes: u64) -> u64 {
    bytes >> 20 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(memory: u64) -> MachineResources {
        MachineResources {
            memory,
            processes: 32_768,
            open_files: 2_400_000,
        }
    }

    fn capacity(machine: MachineResources, slots: u32) -> Capacity {
        machine.capacity(MachinePartitioning {
            slots,
            reserve: machine.default_memory_reserve(),
            slot_memory: None,
        })
    }

    #[test]
    fn memory_is_divided_among_the_slots() {
        let check = |memory: u64, slots: u32, reserve: u64, expected: u64| {
            let machine = machine(memory);
            assert_eq!(
                machine.default_memory_reserve() >> 20,
                reserve,
                "reserve of {memory}"
            );
            assert_eq!(
                capacity(machine, slots).memory >> 20,
                expected,
                "{memory}/{slots}"
            );
        };
        check(24 * GIB, 2, 1228, 11_674);
        check(24 * GIB, 1, 1228, 23_348);
        check(512 * GIB, 64, 2048, 8160);
        // A slot has at least the default memory of a task.
        check(64 * GIB, 64, 2048, 1280);
        check(4 * GIB, 8, 256, 1280);
        check(GIB, 4, 128, 896);
        check(GIB / 2, 1, 64, 448);
    }

    #[test]
    fn all_tasks_together_take_half_of_the_processes_and_a_quarter_of_the_files() {
        let check = |processes: u64, open_files: u64, slots: u32, expected: (u32, u64)| {
            let machine = MachineResources {
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
        // A slot has at least the default number of processes of a task.
        check(32_768, 2_400_000, 64, (512, 9375));
        // But each process needs some open files.
        check(4_194_304, 2_400_000, 1, (37_500, 600_000));
        check(32_768, 64_000, 4, (250, 4000));
        check(32_768, 6400, 64, (1, 25));
        check(600, 64_000, 1, (300, 16_000));
    }

    #[test]
    fn all_processes_together_open_at_most_a_quarter_of_the_files() {
        for (open_files, slots) in [(52_000, 4), (8192, 2), (2_400_000, 1)] {
            let machine = MachineResources {
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
    fn the_limits_of_this_machine_can_be_read() {
        let machine = MachineResources::read();
        assert!(machine.memory > 64 << 20 && machine.memory < u64::MAX);
        assert!(machine.processes >= 100 && machine.processes < u64::MAX);
        assert!(
            AvailableMemoryProbe::new()
                .available()
                .is_some_and(|bytes| bytes > 0)
        );
    }
}
