//! Measures this machine: what a bare spawn costs, and what a task costs on top of it.
//!
//! Every figure is taken from outside, as a user sees it: the server is a process of its own, started from this
//! same binary and spoken to over HTTP and RPC. Ratios against the bare spawn hold on other machines too.

mod adds;
mod backlog;
mod baseline;
pub(crate) mod burn;
mod cells;
mod claims;
mod cluster;
mod figures;
mod latency;
mod neighbours;
mod server;
pub(crate) mod spawns;
mod spread;
mod throughput;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use api::NewTask;
use model::Command;

use crate::print::complain;
use backlog::Backlog;
pub(crate) use cells::{CellFigures, measure_cells};
pub(crate) use cluster::{ClusterFigures, Programs, measure_cluster};
pub(crate) use figures::{Figures, Target};
use figures::{Memory, Start};
pub(crate) use neighbours::{NeighbourFigures, measure_neighbours};
use server::Server;

/// How much of everything.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: usize,
    pub(crate) latency_rounds: usize,
    pub(crate) spawn_time: Duration,
    pub(crate) adds_time: Duration,
    /// From the smallest to the largest.
    pub(crate) backlogs: Vec<usize>,
}

const CONCURRENCIES: [usize; 3] = [1, 16, 64];

pub(crate) async fn measure(plan: &Plan, folder: &Path) -> Result<Figures> {
    complain("measuring bare spawns");
    let before = baseline::measure(plan.spawn_time)?;

    let busy = Server::start(&folder.join("busy"), "auto").await?;
    let start_empty = busy.took;
    complain("measuring the latency of one task");
    let latency = latency::measure(&busy.client, plan.latency_rounds).await?;
    complain(format_args!("measuring {} tasks", plan.tasks));
    let throughput = throughput::measure(&busy.client, plan.tasks).await?;
    busy.stop().await?;
    complain("measuring bare spawns again");
    let after = baseline::measure(plan.spawn_time)?;
    let baseline = before.better(after);
    let steady = before.agrees_with(&after);
    if !steady {
        complain(
            "bare spawns were not equally fast before and after: the machine has other work, so trust no figure",
        );
    }

    // No executor here: adds and claims are measured without anyone running tasks beside them.
    let adds_server = Server::start(&folder.join("adds"), "0").await?;
    let mut adds = Vec::new();
    for concurrency in CONCURRENCIES {
        complain(format_args!("measuring adds, {concurrency} at a time"));
        adds.push(adds::measure(&adds_server.client, concurrency, plan.adds_time).await?);
    }
    adds_server.stop().await?;

    let mut backlogs = Vec::new();
    for tasks in &plan.backlogs {
        complain(format_args!("queueing {tasks} tasks"));
        backlogs.push(Backlog::queue(*tasks, &folder.join(format!("queue-{tasks}"))).await?);
    }
    complain("measuring claims");
    let claims = claims::measure(&backlogs).await?;
    let (memory, start) = reopen_largest(backlogs, folder, start_empty).await?;

    Ok(Figures {
        steady,
        baseline,
        throughput,
        latency,
        adds,
        claims,
        memory,
        start,
    })
}

/// How much memory the largest backlog takes, and how long its store takes to open.
async fn reopen_largest(
    mut backlogs: Vec<Backlog>,
    folder: &Path,
    start_empty: Duration,
) -> Result<(Memory, Start)> {
    let Backlog { server, tasks } = backlogs.pop().context("there is no backlog to measure")?;
    for backlog in backlogs {
        backlog.server.stop().await?;
    }
    let queued = tasks - claims::TAKEN;
    let memory = Memory {
        queued,
        resident_bytes: server.resident()?,
    };
    server.stop().await?;
    complain(format_args!("measuring the start with {queued} tasks"));
    let full = Server::start(&folder.join(format!("queue-{tasks}")), "0").await?;
    let start = Start {
        empty_seconds: start_empty.as_secs_f64(),
        queued,
        full_seconds: full.took.as_secs_f64(),
        full_resident_bytes: full.resident()?,
    };
    full.stop().await?;
    Ok((memory, start))
}

/// The least that a task can be: no shell, no files, no input.
fn trivial() -> NewTask {
    NewTask::new(Command::Argv(vec![spawns::PROGRAM.to_string()]))
}
