//! `conclave bench`: how fast this machine runs tasks, against what it could at most.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use serde::Serialize;

use crate::bench::{Figures, Plan, Target, measure};
use crate::print::{Form, Out, Table, complain};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder on the disk to measure; a folder of our own is made in it and removed again
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    data: PathBuf,
    /// Trivial tasks for the throughput
    #[arg(long, value_name = "N", default_value_t = 5000)]
    tasks: usize,
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
    let figures = measure(&args.plan(), folder.path()).await?;
    let mut out = Out::open();
    match args.form() {
        Form::Json => out.json(&Answer {
            figures: &figures,
            ratio: figures.ratio(),
            targets: figures.targets(),
        })?,
        Form::People => {
            out.text(measured(&figures))?;
            out.text("\n")?;
            out.text(reached(&figures))?;
        }
    }
    Ok(ExitCode::SUCCESS)
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
    let mut table = Table::new(["MEASURED", "FIGURE", "UNIT"]).right([1]);
    let mut row = |what: String, figure: String, unit: &str| table.row([what, figure, unit.to_string()]);
    let millis = |seconds: f64| format!("{:.2}", seconds * 1e3);
    let Figures {
        baseline,
        throughput,
        latency,
        adds,
        claims,
        memory,
        start,
    } = figures;
    row(
        "bare spawns, 1 thread".into(),
        format!("{:.0}", baseline.one_thread_per_second),
        "/s",
    );
    row(
        "bare spawns, 2 threads".into(),
        format!("{:.0}", baseline.two_threads_per_second),
        "/s",
    );
    row("bare spawn, p50".into(), millis(baseline.p50_seconds), "ms");
    row(
        format!("{} tasks, add to done", throughput.tasks),
        format!("{:.0}", throughput.per_second),
        "/s",
    );
    row(
        "  over bare spawns, 2 threads".into(),
        format!("{:.2}", figures.ratio()),
        "",
    );
    row(
        "one task when idle, p50".into(),
        millis(latency.p50_seconds),
        "ms",
    );
    row(
        "one task when idle, p99".into(),
        millis(latency.p99_seconds),
        "ms",
    );
    for adds in adds {
        row(
            format!("durable adds, {} at a time", adds.concurrency),
            format!("{:.0}", adds.per_second),
            "/s",
        );
    }
    for claims in claims {
        row(
            format!("claim 1 of {}, p50", claims.backlog),
            millis(claims.one_p50_seconds),
            "ms",
        );
        row(
            format!("claim 16 of {}, p50", claims.backlog),
            millis(claims.sixteen_p50_seconds),
            "ms",
        );
    }
    row(
        format!("memory with {} queued", memory.queued),
        (memory.resident_bytes >> 20).to_string(),
        "MiB",
    );
    row("start, empty store".into(), millis(start.empty_seconds), "ms");
    row(
        format!("start, {} queued", start.queued),
        millis(start.full_seconds),
        "ms",
    );
    row(
        "  memory then".into(),
        (start.full_resident_bytes >> 20).to_string(),
        "MiB",
    );
    table
}

fn reached(figures: &Figures) -> Table {
    let mut table = Table::new(["TARGET", "WANTED", "FOUND", "MET"]);
    for target in figures.targets() {
        let met = match target.met {
            true => "yes",
            false => "NO",
        };
        table.row([
            target.what.to_string(),
            target.wanted,
            target.found,
            met.to_string(),
        ]);
    }
    table
}
