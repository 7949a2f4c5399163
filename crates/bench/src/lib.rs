//! `conclave bench`: measures how fast this machine runs tasks, against baselines taken in the same run.
//!
//! Every figure is taken from outside, as a user sees it: the nodes are processes of their own, started from the running
//! binary (`/proc/self/exe`) and called over HTTP and RPC. The sandbox is the one exception: the cost of a single run in a
//! cell is too small to be measured through a server. Ratios against the bare spawn also hold on other machines.
//!
//! This crate knows neither the configuration nor the command line. `conclave` passes it options and prints its report.
#![allow(clippy::disallowed_types, reason = "this crate starts processes")]

mod adds;
mod backlog;
mod baseline;
pub mod burn;
mod cells;
mod claims;
mod cluster;
mod judging;
mod kept_files;
mod latency;
mod live_output;
mod neighbours;
mod pages;
mod percentile;
mod process_tree;
mod raw_http;
mod report;
mod results;
mod single_node;
pub mod spawns;
pub mod task_program;
mod throughput;
mod up_process;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use api::NewTask;
use model::StepCommand;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use sandbox::SandboxOptions;

pub use cluster::ServerPrograms;
pub use report::{BenchReport, FigureTable, ReleaseTarget};
pub use up_process::address_in_ready_line;

/// What one run of `conclave bench` measures, with which sizes and on which disk.
pub struct BenchOptions {
    /// A folder on the disk to measure. The benchmark makes a temporary folder in it.
    pub data: PathBuf,
    pub sizes: BenchSizes,
    pub subject: BenchSubject,
}

/// What `conclave bench` measures: a single node, a cluster, the cost of cells, hostile neighbours, or judging.
pub enum BenchSubject {
    /// `conclave up`: throughput, latency, durable adds, claims, memory and start.
    SingleNode,
    /// A cluster on this machine, against one process.
    Cluster(ServerPrograms),
    /// What cells cost, against bare spawns, tasks without cells, and bubblewrap.
    Cells {
        sandbox: SandboxOptions,
        /// The `bwrap` program to compare cells with.
        bwrap: String,
    },
    /// What tasks give back: kept files, large outputs, live output and groups.
    Results,
    /// What a task in a cell loses to hostile programs in the slot beside it.
    Neighbours,
    /// What judging costs, against compiling and running directly, bare spawns, and the sandbox alone.
    Judge { sandbox: SandboxOptions },
}

/// How many tasks, rounds and seconds each measurement of the benchmark takes.
#[derive(Clone, Debug)]
pub struct BenchSizes {
    pub tasks: usize,
    pub latency_rounds: usize,
    pub spawn_time: Duration,
    pub adds_time: Duration,
    /// Numbers of queued tasks, in ascending order.
    pub backlogs: Vec<usize>,
    /// How often a task is measured beside each hostile program.
    pub neighbour_rounds: usize,
    /// How many tasks keep files.
    pub keeping_tasks: usize,
    pub followers: usize,
    /// Bytes of output of one task.
    pub large_output: u64,
    /// How many tasks a group has.
    pub group_tasks: usize,
    /// How often the submissions of a contest are judged, each time as many as these.
    pub judge_rounds: usize,
    pub submissions: usize,
    /// How many cases a single task has.
    pub judged_cases: usize,
    /// How many tasks share a checker.
    pub checked_tasks: usize,
}

impl BenchSizes {
    /// Takes minutes.
    pub fn full(tasks: usize) -> BenchSizes {
        BenchSizes {
            tasks,
            latency_rounds: 500,
            spawn_time: Duration::from_secs(3),
            adds_time: Duration::from_secs(3),
            backlogs: vec![1000, 100_000, 1_000_000],
            neighbour_rounds: 3,
            keeping_tasks: 1000,
            followers: 500,
            large_output: 1 << 30,
            group_tasks: 1_000_000,
            judge_rounds: 2,
            submissions: 30,
            judged_cases: 1000,
            checked_tasks: 100,
        }
    }

    /// Takes seconds; the figures are less exact.
    pub fn quick(tasks: usize) -> BenchSizes {
        BenchSizes {
            tasks: tasks.min(1000),
            latency_rounds: 100,
            spawn_time: Duration::from_secs(1),
            adds_time: Duration::from_secs(1),
            backlogs: vec![1000, 10_000, 50_000],
            neighbour_rounds: 1,
            keeping_tasks: 100,
            followers: 100,
            large_output: 128 << 20,
            group_tasks: 20_000,
            judge_rounds: 1,
            submissions: 6,
            judged_cases: 200,
            checked_tasks: 20,
        }
    }
}

/// How many callers add tasks at the same time, in each measurement of adds.
const ADD_CONCURRENCIES: [usize; 3] = [1, 16, 64];

/// Measures the subject of the options. Progress and warnings go to stderr.
pub async fn run(options: BenchOptions) -> Result<BenchReport> {
    let BenchOptions { data, sizes, subject } = options;
    let folder = tempfile::Builder::new()
        .prefix("conclave-bench-")
        .tempdir_in(&data)
        .with_context(|| {
            format!(
                "could not create a folder in {}; choose another with --data",
                data.display()
            )
        })?;
    if cfg!(debug_assertions) {
        progress("this is a debug build, so its figures mean little; build with --release");
    }
    warn_if_in_memory(folder.path());
    match subject {
        BenchSubject::SingleNode => BenchReport::of(&single_node::measure(&sizes, folder.path()).await?),
        BenchSubject::Cluster(programs) => {
            BenchReport::of(&cluster::measure(&sizes, &programs, folder.path()).await?)
        }
        BenchSubject::Cells { sandbox, bwrap } => {
            BenchReport::of(&cells::measure(&sizes, &sandbox, &bwrap, folder.path()).await?)
        }
        BenchSubject::Results => BenchReport::of(&results::measure(&sizes, folder.path()).await?),
        BenchSubject::Neighbours => {
            BenchReport::of(&neighbours::measure(sizes.neighbour_rounds, folder.path()).await?)
        }
        BenchSubject::Judge { sandbox } => {
            BenchReport::of(&judging::measure(&sizes, &sandbox, folder.path()).await?)
        }
    }
}

fn warn_if_in_memory(folder: &Path) {
    if statfs(folder).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) {
        progress(format_args!(
            "{} is on a tmpfs, where a sync costs nothing; choose a folder on a disk with --data",
            folder.display()
        ));
    }
}

/// Writes a line to stderr. A closed stderr is ignored, because the figures go to stdout.
fn progress(message: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "conclave: {message}");
}

/// The cheapest task: no shell, no files, no input.
fn trivial_task() -> NewTask {
    NewTask::new(StepCommand::Argv(vec![spawns::PROGRAM.to_string()]))
}
