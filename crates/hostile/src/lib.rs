//! Hostile programs that attack resources which all tasks of a machine share, each as a task; and a task that measures the
//! harm. The tests and `conclave bench --neighbours` run the same programs.
//!
//! This crate knows the JSON of a task, and nothing of the system that runs it. The programs are C, and are compiled where they
//! run.

mod measuring;

pub use measuring::{
    BUSY_NEIGHBOUR, EMULATED_MEASURING_TASK, MEASURING_TASK, MeasuringTask, SHORT_MEASURING_TASK,
};

use serde_json::{Value, json};

/// A program that attacks one shared resource.
#[derive(Clone, Copy, Debug)]
pub struct HostileTask {
    pub name: &'static str,
    /// The resource that it attacks, and how.
    pub attacks: &'static str,
    /// The program's output if the protection against it works. `None` if the output does not show that.
    pub expected_refusal: Option<&'static str>,
    pub network: Option<&'static str>,
    /// The largest number of open files if only the task's memory bounds them. `None` if `open_files` does.
    pub max_files_by_memory: Option<u64>,
    source: &'static str,
}

const BEGIN: &str = include_str!("programs/begin.h");
const COMPILE: &str = "cc -O1 -w -pthread -o main main.c";
/// The wall limit exceeds the duration that the program gets as its argument by this.
const GRACE_SECONDS: u64 = 20;

pub const HOSTILE_TASKS: [HostileTask; 19] = [
    hostile(
        "access_control_lists",
        "kernel memory, by lists of who may use a file",
        include_str!("programs/access_control_lists.c"),
    )
    .expect_refusal("0 Operation not supported\n"),
    hostile(
        "socket_options",
        "kernel memory, by options of sockets",
        include_str!("programs/socket_options.c"),
    )
    .expect_refusal("0 Protocol not available\n"),
    hostile(
        "memory_policies",
        "kernel memory, by policies for ranges of memory",
        include_str!("programs/memory_policies.c"),
    )
    .expect_refusal("0 Function not implemented\n"),
    hostile(
        "record_locks",
        "kernel memory, by locks on ranges of files",
        include_str!("programs/record_locks.c"),
    ),
    hostile(
        "udp_queues",
        "kernel memory, by datagrams that are never read",
        include_str!("programs/udp_queues.c"),
    )
    .on_network("loopback"),
    hostile(
        "descriptors_in_flight",
        "open files, by descriptors that are sent and never received",
        include_str!("programs/descriptors_in_flight.c"),
    ),
    hostile(
        "open_files",
        "open files, in many processes",
        include_str!("programs/open_files.c"),
    ),
    hostile(
        "mapped_files",
        "open files, by mappings that hold them",
        include_str!("programs/mapped_files.c"),
    )
    // Each file with its mapping uses about 400 bytes of the 128 MiB. If these were not charged, 20 processes would hold 65,530
    // mappings each, which is the kernel's maximum.
    .allow_files_by_memory(450_000),
    hostile(
        "queues",
        "kernel memory, by pipes and message queues",
        include_str!("programs/queues.c"),
    ),
    hostile(
        "timers",
        "interrupts and kernel memory, by timers and signals",
        include_str!("programs/timers.c"),
    ),
    hostile(
        "sessions",
        "the processors, by many sessions",
        include_str!("programs/sessions.c"),
    ),
    hostile("forks", "process numbers", include_str!("programs/forks.c")),
    hostile("memory", "memory", include_str!("programs/memory.c")),
    hostile("output", "the executor", include_str!("programs/output.c")),
    hostile(
        "files",
        "inodes and directory entries",
        include_str!("programs/files.c"),
    ),
    hostile(
        "file_watches",
        "information about what other tasks run",
        include_str!("programs/file_watches.c"),
    )
    .expect_refusal("0 Function not implemented\n"),
    hostile(
        "disk_flushes",
        "the disks and the page cache",
        include_str!("programs/disk_flushes.c"),
    ),
    hostile(
        "crashes",
        "the core dump helper and the kernel log",
        include_str!("programs/crashes.c"),
    ),
    hostile(
        "module_requests",
        "the loader of kernel modules",
        include_str!("programs/module_requests.c"),
    ),
];

const fn hostile(name: &'static str, attacks: &'static str, source: &'static str) -> HostileTask {
    HostileTask {
        name,
        attacks,
        expected_refusal: None,
        network: None,
        max_files_by_memory: None,
        source,
    }
}

impl HostileTask {
    const fn expect_refusal(mut self, output: &'static str) -> HostileTask {
        self.expected_refusal = Some(output);
        self
    }

    const fn on_network(mut self, network: &'static str) -> HostileTask {
        self.network = Some(network);
        self
    }

    const fn allow_files_by_memory(mut self, files: u64) -> HostileTask {
        self.max_files_by_memory = Some(files);
        self
    }

    /// The complete source code.
    pub fn source(&self) -> String {
        format!("{BEGIN}{}", self.source)
    }

    /// The task that runs the program for this long, unless a limit ends it earlier.
    pub fn task(&self, seconds: u64) -> Value {
        let mut task = compiled(&self.source(), seconds);
        task["execute"]["network"] = json!(self.network);
        task["execute"]["limits"] = json!({
            "wall": format!("{}s", seconds + GRACE_SECONDS), "memory": "128MiB", "processes": 512, "output": "1MiB",
            "space": "64MiB",
        });
        task
    }
}

/// A task that compiles a program and runs it with one argument.
fn compiled(source: &str, argument: u64) -> Value {
    json!({
        "source": {"main.c": source},
        "compile": {"command": COMPILE, "limits": {"wall": "60s"}},
        "execute": {"command": ["./main", argument.to_string()]},
    })
}
