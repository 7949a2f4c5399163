//! `conclave bench`: how fast this machine runs tasks, against baselines of the same machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bench::{BenchOptions, BenchSizes, BenchSubject, FigureTable, ServerPrograms};
use sandbox::SandboxOptions;

use crate::config::ConfigLayers;
use crate::node::options;
use crate::print::{Stdout, TextTable};

/// The arguments of `conclave bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    /// Folder on the disk to measure; a temporary folder is created in it and removed at the end
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    data: PathBuf,
    /// Number of trivial tasks that measure the throughput
    #[arg(long, value_name = "N", default_value_t = 5000)]
    tasks: usize,
    /// Start a cluster on this machine and measure it instead, against one process
    #[arg(long)]
    cluster: bool,
    /// Measure the cost of cells instead, against bare spawns, tasks without cells, and bwrap
    #[arg(long, value_name = "HOW", value_parser = ["cell"], conflicts_with = "cluster")]
    isolation: Option<String>,
    /// Measure how much hostile programs slow down a task in a cell beside them instead; needs a C compiler (`cc`)
    #[arg(long, conflicts_with_all = ["cluster", "isolation"])]
    neighbours: bool,
    /// Measure kept files, large outputs, live output and groups instead
    #[arg(long, conflicts_with_all = ["cluster", "isolation", "neighbours"])]
    results: bool,
    /// Measure judging instead, against compiling and running directly; needs a C++ compiler (`g++`)
    #[arg(long, conflicts_with_all = ["cluster", "isolation", "neighbours", "results"])]
    judge: bool,
    /// The bubblewrap program to compare cells with
    #[arg(long, value_name = "PROGRAM", default_value = "bwrap", requires = "isolation")]
    bwrap: String,
    /// The etcd program for the cluster
    #[arg(long, value_name = "PROGRAM", default_value = "etcd", requires = "cluster")]
    etcd: String,
    /// The mongod program for the cluster
    #[arg(long, value_name = "PROGRAM", default_value = "mongod", requires = "cluster")]
    mongod: String,
    /// Use smaller numbers: takes seconds instead of minutes, and the figures are less exact
    #[arg(long)]
    quick: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: BenchArgs) -> Result<ExitCode> {
    let is_json = args.json;
    let report = bench::run(args.into_options()?).await?;
    let mut out = Stdout::open();
    if is_json {
        out.line(report.json)?;
    } else {
        out.text(table(report.measured))?;
        out.text("\n")?;
        out.text(table(report.targets))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl BenchArgs {
    fn into_options(self) -> Result<BenchOptions> {
        let sizes = match self.quick {
            true => BenchSizes::quick(self.tasks),
            false => BenchSizes::full(self.tasks),
        };
        let subject = if self.cluster {
            BenchSubject::Cluster(ServerPrograms {
                etcd: self.etcd,
                mongod: self.mongod,
            })
        } else if self.isolation.is_some() {
            BenchSubject::Cells {
                sandbox: configured_cells()?,
                bwrap: self.bwrap,
            }
        } else if self.judge {
            BenchSubject::Judge {
                sandbox: configured_cells()?,
            }
        } else if self.results {
            BenchSubject::Results
        } else if self.neighbours {
            BenchSubject::Neighbours
        } else {
            BenchSubject::SingleNode
        };
        Ok(BenchOptions {
            data: self.data,
            sizes,
            subject,
        })
    }
}

fn configured_cells() -> Result<SandboxOptions> {
    let config = ConfigLayers::gather(None, Vec::new())?.config()?;
    options::cells(&config).context("no cells are configured; set executor.isolation to cell")
}

fn table(figures: FigureTable) -> TextTable {
    let mut table = TextTable::new(figures.headings).right_align(figures.right_aligned);
    for row in figures.rows {
        table.row(row);
    }
    table
}
