//! Hostile programs that take what all tasks of a machine share, each as a task; and a task that measures what they
//! take from their neighbours. The tests and `conclave bench --neighbours` run the same ones.
//!
//! This room knows the JSON of a task and nothing of who runs it. The programs are C, so they are compiled where they run.

mod measuring;

pub use measuring::{BUSY, EMULATED_MEASURING, MEASURING, Measuring, SHORT_MEASURING};

use serde_json::{Value, json};

/// One program, which is after one thing.
#[derive(Clone, Copy, Debug)]
pub struct Hostile {
    pub name: &'static str,
    pub attacks: &'static str,
    /// What it says where the wall against it stands. None for a program that says how far it came, or nothing.
    pub refused: Option<&'static str>,
    pub network: Option<&'static str>,
    /// So many files of the machine it may hold where its memory alone bounds them. None where `open_files` does.
    pub files_by_memory: Option<u64>,
    source: &'static str,
}

const BEGIN: &str = include_str!("programs/begin.h");
const COMPILE: &str = "cc -O1 -w -pthread -o main main.c";
/// Its own limit comes a little later than the end that it was told.
const GRACE_SECONDS: u64 = 20;

pub const HOSTILE: [Hostile; 19] = [
    hostile(
        "access_control_lists",
        "kernel memory, by lists of who may use a file",
        include_str!("programs/access_control_lists.c"),
    )
    .is_refused("0 Operation not supported\n"),
    hostile(
        "socket_options",
        "kernel memory, by options of sockets",
        include_str!("programs/socket_options.c"),
    )
    .is_refused("0 Protocol not available\n"),
    hostile(
        "memory_policies",
        "kernel memory, by policies for ranges of memory",
        include_str!("programs/memory_policies.c"),
    )
    .is_refused("0 Function not implemented\n"),
    hostile(
        "record_locks",
        "kernel memory, by locks on ranges of files",
        include_str!("programs/record_locks.c"),
    ),
    hostile(
        "udp_queues",
        "kernel memory, by datagrams that nobody reads",
        include_str!("programs/udp_queues.c"),
    )
    .on_network("loopback"),
    hostile(
        "descriptors_in_flight",
        "open files, by descriptors that were sent and not received",
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
    // With its mapping each takes about 400 bytes of the 128 MiB. If these were not charged, 20 processes would hold as many
    // mappings as the kernel allows, 65,530 each.
    .holds_files(450_000),
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
        "knowledge of what others run",
        include_str!("programs/file_watches.c"),
    )
    .is_refused("0 Function not implemented\n"),
    hostile(
        "disk_flushes",
        "the disks and the page cache",
        include_str!("programs/disk_flushes.c"),
    ),
    hostile(
        "crashes",
        "the core dump helper, and the log",
        include_str!("programs/crashes.c"),
    ),
    hostile(
        "module_requests",
        "the loader of kernel modules",
        include_str!("programs/module_requests.c"),
    ),
];

const fn hostile(name: &'static str, attacks: &'static str, source: &'static str) -> Hostile {
    Hostile {
        name,
        attacks,
        refused: None,
        network: None,
        files_by_memory: None,
        source,
    }
}

impl Hostile {
    const fn is_refused(mut self, says: &'static str) -> Hostile {
        self.refused = Some(says);
        self
    }

    const fn on_network(mut self, network: &'static str) -> Hostile {
        self.network = Some(network);
        self
    }

    const fn holds_files(mut self, files: u64) -> Hostile {
        self.files_by_memory = Some(files);
        self
    }

    /// The whole text, for one compiler call.
    pub fn source(&self) -> String {
        format!("{BEGIN}{}", self.source)
    }

    /// As a task that goes on for so long, unless a limit ends it before.
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
