//! `conclave bench`: how fast this machine runs tasks, against what it could at most.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use serde::Serialize;

use crate::bench::{
    CellFigures, ClusterFigures, Figures, NeighbourFigures, Plan, Programs, Target, measure, measure_cells,
    measure_cluster, measure_neighbours,
};
use crate::print::{Form, Out, Table, complain};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder on the disk to measure; a folder of our own is made in it and removed again
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    data: PathBuf,
    /// Trivial tasks for the throughput
    #[arg(long, value_name = "N", default_value_t = 5000)]
    tasks: usize,
    /// Measure a cluster of our own on this machine instead, against one process
    #[arg(long)]
    cluster: bool,
    /// Measure what running in cells costs instead, against bare spawns, against tasks without cells, and against bwrap
    #[arg(long, value_name = "HOW", value_parser = ["cell"], conflicts_with = "cluster")]
    isolation: Option<String>,
    /// Measure what a task in a cell loses to hostile programs in the slot beside it instead; takes a C compiler (`cc`)
    #[arg(long, conflicts_with_all = ["cluster", "isolation"])]
    neighbours: bool,
    /// The bubblewrap to compare cells with
    #[arg(long, value_name = "PROGRAM", default_value = "bwrap", requires = "isolation")]
    bwrap: String,
    /// The etcd for the cluster
    #[arg(long, value_name = "PROGRAM", default_value = "etcd", requires = "cluster")]
    etcd: String,
    /// The mongod for the cluster
    #[arg(long, value_name = "PROGRAM", default_value = "mongod", requires = "cluster")]
    mongod: String,
    /// Smaller numbers: seconds instead of minutes, and coarser figures
    #[arg(long)]
    quick: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

impl Args {
    fn plan(&self) -> Plan {
        match self.quick {
            true => Plan {
                tasks: self.tasks.min(1000),
                latency_rounds: 100,
                spawn_time: Duration::from_secs(1),
                adds_time: Duration::from_secs(1),
                backlogs: vec![1000, 10_000, 50_000],
            },
            false => Plan {
                tasks: self.tasks,
                latency_rounds: 500,
                spawn_time: Duration::from_secs(3),
                adds_time: Duration::from_secs(3),
                backlogs: vec![1000, 100_000, 1_000_000],
            },
        }
    }

    /// How often a task is measured beside each of its neighbours.
    fn neighbour_rounds(&self) -> usize {
        match self.quick {
            true => 1,
            false => 3,
        }
    }

    fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => Form::People,
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    figures: &'a Figures,
    ratio: f64,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct ClusterAnswer<'a> {
    #[serde(flatten)]
    figures: &'a ClusterFigures,
    ratio: f64,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct CellAnswer<'a> {
    #[serde(flatten)]
    figures: &'a CellFigures,
    targets: Vec<Target>,
}

#[derive(Serialize)]
struct NeighbourAnswer<'a> {
    #[serde(flatten)]
    figures: &'a NeighbourFigures,
    targets: Vec<Target>,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let folder = tempfile::Builder::new()
        .prefix("conclave-bench-")
        .tempdir_in(&args.data)
        .with_context(|| {
            format!(
                "could not make a folder in {}; choose another with --data",
                args.data.display()
            )
        })?;
    if cfg!(debug_assertions) {
        complain("this is a debug build, whose figures say little; build with --release");
    }
    warn_if_memory(folder.path());
    let mut out = Out::open();
    if args.cluster {
        let programs = Programs {
            etcd: args.etcd.clone(),
            mongod: args.mongod.clone(),
        };
        let figures = measure_cluster(&args.plan(), &programs, folder.path()).await?;
        match args.form() {
            Form::Json => out.json(&ClusterAnswer {
                figures: &figures,
                ratio: figures.ratio(),
                targets: figures.targets(),
            })?,
            Form::People => {
                out.text(measured_cluster(&figures))?;
                out.text("\n")?;
                out.text(reached(figures.targets()))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.isolation.is_some() {
        let figures = measure_cells(&args.plan(), &args.bwrap, folder.path()).await?;
        match args.form() {
            Form::Json => out.json(&CellAnswer {
                figures: &figures,
                targets: figures.targets(),
            })?,
            Form::People => {
                out.text(measured_cells(&figures))?;
                out.text("\n")?;
                out.text(reached(figures.targets()))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.neighbours {
        let figures = measure_neighbours(args.neighbour_rounds(), folder.path()).await?;
        match args.form() {
            Form::Json => out.json(&NeighbourAnswer {
                figures: &figures,
                targets: figures.targets(),
            })?,
            Form::People => {
                out.text(measured_neighbours(&figures))?;
                out.text("\n")?;
                out.text(reached(figures.targets()))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let figures = measure(&args.plan(), folder.path()).await?;
    match args.form() {
        Form::Json => out.json(&Answer {
            figures: &figures,
            ratio: figures.ratio(),
            targets: figures.targets(),
        })?,
        Form::People => {
            out.text(measured(&figures))?;
            out.text("\n")?;
            out.text(reached(figures.targets()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measured_cells(figures: &CellFigures) -> Table {
    let mut table = Table::new(["MEASURED", "FIGURE", "UNIT"]).right([1]);
    let mut row = |what: &str, (figure, unit): (String, &str)| {
        table.row([what.to_string(), figure, unit.to_string()]);
    };
    row("bare spawn, p50", millis(figures.spawn_p50_seconds));
    row("one run in a ready cell, p50", millis(figures.run_p50_seconds));
    row(
        "making the next one ready, p50",
        millis(figures.ready_p50_seconds),
    );
    row("one run by bwrap, p50", millis(figures.bwrap_p50_seconds));
    row("tasks without cells", rate(figures.none.per_second));
    row("tasks in cells", rate(figures.cell.per_second));
    row(
        "a warden's own memory, with its cell",
        kibibytes(figures.warden_bytes),
    );
    row("a busy program outside", millis(figures.outside_seconds));
    row("the same in a cell", millis(figures.inside_seconds));
    row("  its CPU time, as it says", millis(figures.own_cpu_seconds));
    row(
        "  its CPU time, as measured",
        millis(figures.measured_cpu_seconds),
    );
    table
}

fn measured_neighbours(figures: &NeighbourFigures) -> Table {
    let header = [
        "NEIGHBOUR",
        "CPU/ALONE",
        "CPU/BUSY",
        "WALL/ALONE",
        "WALL/BUSY",
        "IS AFTER",
    ];
    let mut table = Table::new(header).right([1, 2, 3, 4]);
    let mut row = |name: &str, [first, second, third, fourth]: [String; 4], attacks: &str| {
        table.row([
            name.to_string(),
            first,
            second,
            third,
            fourth,
            attacks.to_string(),
        ]);
    };
    let one_figure = |text: &str| [text.to_string(), String::new(), String::new(), String::new()];
    let alone = if figures.steady { "yes" } else { "NO" };
    row("machine left alone", one_figure(alone), "");
    row("cores", one_figure(&figures.cores.to_string()), "");
    let (alone, busy) = (figures.alone, figures.beside_busy);
    let seconds = [
        alone.cpu_seconds,
        busy.cpu_seconds,
        alone.wall_seconds,
        busy.wall_seconds,
    ];
    row(
        "none hostile",
        seconds.map(|seconds| format!("{seconds:.3} s")),
        "",
    );
    for one in &figures.neighbours {
        let (alone, busy) = (one.over_alone, one.over_busy);
        let ratios = [alone.cpu, busy.cpu, alone.wall, busy.wall];
        row(one.name, ratios.map(|ratio| format!("x {ratio:.2}")), one.attacks);
    }
    table
}

fn kibibytes(bytes: u64) -> (String, &'static str) {
    ((bytes >> 10).to_string(), "KiB")
}

fn measured_cluster(figures: &ClusterFigures) -> Table {
    let mut table = Table::new(["MEASURED", "FIGURE", "UNIT"]).right([1]);
    let mut row = |what: &str, (figure, unit): (String, &str)| {
        table.row([what.to_string(), figure, unit.to_string()]);
    };
    row(
        "bare spawns, 2 threads",
        rate(figures.baseline.two_threads_per_second),
    );
    row(
        &format!("{} tasks on one process", figures.single.tasks),
        rate(figures.single.per_second),
    );
    row(
        &format!("{} tasks on the cluster", figures.cluster.tasks),
        rate(figures.cluster.per_second),
    );
    row("  over one process", (format!("{:.2}", figures.ratio()), ""));
    row("one task when idle, p50", millis(figures.latency.p50_seconds));
    row("one task when idle, p99", millis(figures.latency.p99_seconds));
    for adds in &figures.adds {
        row(
            &format!("durable adds, {} at a time", adds.concurrency),
            rate(adds.per_second),
        );
    }
    row(
        "start of all nodes",
        (format!("{:.1}", figures.start_seconds), "s"),
    );
    table
}

fn warn_if_memory(folder: &Path) {
    if statfs(folder).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) {
        complain(format_args!(
            "{} is in memory, where being durable costs nothing; choose a folder on a disk with --data",
            folder.display()
        ));
    }
}

fn measured(figures: &Figures) -> Table {
    let Figures {
        steady,
        baseline,
        throughput,
        latency,
        adds,
        claims,
        memory,
        start,
    } = figures;
    let mut table = Table::new(["MEASURED", "FIGURE", "UNIT"]).right([1]);
    let mut row = |what: &str, (figure, unit): (String, &str)| {
        table.row([what.to_string(), figure, unit.to_string()]);
    };
    let alone = if *steady { "yes" } else { "NO" };
    row("machine left alone", (alone.to_string(), ""));
    row("bare spawns, 1 thread", rate(baseline.one_thread_per_second));
    row("bare spawns, 2 threads", rate(baseline.two_threads_per_second));
    row("bare spawn, p50", millis(baseline.p50_seconds));
    row(
        &format!("{} tasks, add to done", throughput.tasks),
        rate(throughput.per_second),
    );
    row(
        "  over bare spawns, 2 threads",
        (format!("{:.2}", figures.ratio()), ""),
    );
    row("one task when idle, p50", millis(latency.p50_seconds));
    row("one task when idle, p99", millis(latency.p99_seconds));
    for adds in adds {
        row(
            &format!("durable adds, {} at a time", adds.concurrency),
            rate(adds.per_second),
        );
    }
    for claims in claims {
        let backlog = claims.backlog;
        row(
            &format!("claim 1 of {backlog}, p50"),
            millis(claims.one_p50_seconds),
        );
        row(
            &format!("claim 16 of {backlog}, p50"),
            millis(claims.sixteen_p50_seconds),
        );
    }
    row(
        &format!("memory with {} queued", memory.queued),
        mebibytes(memory.resident_bytes),
    );
    row("start, empty store", millis(start.empty_seconds));
    row(
        &format!("start, {} queued", start.queued),
        millis(start.full_seconds),
    );
    row("  memory then", mebibytes(start.full_resident_bytes));
    table
}

fn rate(per_second: f64) -> (String, &'static str) {
    (format!("{per_second:.0}"), "/s")
}

fn millis(seconds: f64) -> (String, &'static str) {
    (format!("{:.2}", seconds * 1e3), "ms")
}

fn mebibytes(bytes: u64) -> (String, &'static str) {
    ((bytes >> 20).to_string(), "MiB")
}

fn reached(targets: Vec<Target>) -> Table {
    let mut table = Table::new(["TARGET", "WANTED", "FOUND", "MET"]);
    for target in targets {
        // A no stands out.
        let met = if target.met { "yes" } else { "NO" };
        table.row([
            target.what.to_string(),
            target.wanted,
            target.found,
            met.to_string(),
        ]);
    }
    table
}
