//! `conclave up` on this machine: what a task costs beyond a bare spawn, and how the server copes with a large backlog.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::adds::{self, AddThroughput};
use crate::backlog::Backlog;
use crate::baseline::{self, SpawnBaseline};
use crate::claims::{self, ClaimLatency};
use crate::latency::{self, IdleLatency};
use crate::pages::{self, PageLatency};
use crate::report::{FigureTable, Figures, ReleaseTarget, mebibytes, millis, rate};
use crate::throughput::{self, TaskThroughput};
use crate::up_process::UpProcess;
use crate::{ADD_CONCURRENCIES, BenchSizes, progress};

/// What `conclave bench` measures of a `conclave up`: throughput, latency, adds, claims, memory, start and the first page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SingleNodeFigures {
    /// Whether bare spawns were equally fast before and after. If not, the machine had other load and the figures mean little.
    pub(crate) steady: bool,
    pub(crate) baseline: SpawnBaseline,
    pub(crate) throughput: TaskThroughput,
    pub(crate) latency: IdleLatency,
    pub(crate) adds: Vec<AddThroughput>,
    pub(crate) claims: Vec<ClaimLatency>,
    /// From the smallest backlog, while as many tasks as in the largest one wait for a root that no executor has.
    pub(crate) claims_beside_unclaimable: ClaimLatency,
    pub(crate) memory: BacklogMemory,
    pub(crate) start: StartTimes,
    pub(crate) page: PageLatency,
}

/// A figure of the benchmark: resident memory of a `conclave up` with a number of queued tasks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct BacklogMemory {
    pub(crate) queued: usize,
    pub(crate) resident_bytes: u64,
}

/// How long a `conclave up` takes to start in the benchmark, with an empty store and with the largest backlog.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StartTimes {
    pub(crate) empty_seconds: f64,
    pub(crate) queued: usize,
    pub(crate) full_seconds: f64,
    pub(crate) full_resident_bytes: u64,
}

const MIN_THROUGHPUT_RATIO: f64 = 0.5;
const MAX_SECONDS_OVER_SPAWN: f64 = 0.005;
const MAX_CLAIM_GROWTH: f64 = 2.0;
const MAX_UNCLAIMABLE_COST: f64 = 1.5;
const MAX_MEMORY_MIB: u64 = 300;
const MAX_EMPTY_START_SECONDS: f64 = 1.0;
const MAX_FULL_START_SECONDS: f64 = 2.0;
const MAX_PAGE_SECONDS: f64 = 0.05;

pub(crate) async fn measure(sizes: &BenchSizes, folder: &Path) -> Result<SingleNodeFigures> {
    progress("measuring bare spawns");
    let before = baseline::measure(sizes.spawn_time)?;

    let busy = UpProcess::start(&folder.join("busy"), "auto").await?;
    let empty_start_time = busy.start_time;
    progress("measuring the latency of one task");
    let latency = latency::measure(&busy.client, sizes.latency_rounds).await?;
    progress(format_args!("measuring {} tasks", sizes.tasks));
    let throughput = throughput::measure(&busy.client, sizes.tasks).await?;
    busy.stop().await?;
    progress("measuring bare spawns again");
    let after = baseline::measure(sizes.spawn_time)?;
    let baseline = before.faster_of(after);
    let steady = before.agrees_with(&after);
    if !steady {
        progress(
            "bare spawns were not equally fast before and after: the machine has other load, so the figures are not reliable",
        );
    }

    // These servers have no slots: adds and claims are measured while no task runs.
    let adds_server = UpProcess::start(&folder.join("adds"), "0").await?;
    let mut adds = Vec::new();
    for concurrency in ADD_CONCURRENCIES {
        progress(format_args!("measuring adds, {concurrency} at a time"));
        adds.push(adds::measure(&adds_server.client, concurrency, sizes.adds_time).await?);
    }
    adds_server.stop().await?;

    let mut backlogs = Vec::new();
    for tasks in &sizes.backlogs {
        progress(format_args!("queueing {tasks} tasks"));
        backlogs.push(Backlog::queue(*tasks, &folder.join(format!("queue-{tasks}"))).await?);
    }
    let claimable = *sizes.backlogs.first().context("there is no backlog to measure")?;
    let unclaimable = sizes.backlogs.last().copied().unwrap_or(claimable);
    progress(format_args!(
        "queueing {unclaimable} tasks that no executor can run"
    ));
    let mut beside = Backlog::queue(claimable, &folder.join("unclaimable")).await?;
    beside.add_unclaimable(unclaimable).await?;
    backlogs.push(beside);
    progress("measuring claims");
    let mut claims = claims::measure(&backlogs).await?;
    let claims_beside_unclaimable = claims.pop().context("no claims were measured")?;
    if let Some(beside) = backlogs.pop() {
        beside.server.stop().await?;
    }
    let (memory, start, page) =
        reopen_largest(backlogs, folder, empty_start_time, sizes.latency_rounds).await?;

    Ok(SingleNodeFigures {
        steady,
        baseline,
        throughput,
        latency,
        adds,
        claims,
        claims_beside_unclaimable,
        memory,
        start,
        page,
    })
}

/// Measures the memory of the server with the largest backlog, how long it takes to start again, and then its first page.
async fn reopen_largest(
    mut backlogs: Vec<Backlog>,
    folder: &Path,
    empty_start_time: Duration,
    page_rounds: usize,
) -> Result<(BacklogMemory, StartTimes, PageLatency)> {
    let Backlog { server, tasks, .. } = backlogs.pop().context("there is no backlog to measure")?;
    for backlog in backlogs {
        backlog.server.stop().await?;
    }
    let queued = tasks - claims::CLAIMED_TASKS;
    let memory = BacklogMemory {
        queued,
        resident_bytes: server.resident_bytes()?,
    };
    server.stop().await?;
    progress(format_args!("measuring the start with {queued} tasks"));
    let full = UpProcess::start(&folder.join(format!("queue-{tasks}")), "0").await?;
    let start = StartTimes {
        empty_seconds: empty_start_time.as_secs_f64(),
        queued,
        full_seconds: full.start_time.as_secs_f64(),
        full_resident_bytes: full.resident_bytes()?,
    };
    progress(format_args!("measuring the list of {queued} tasks as a page"));
    let page = pages::measure(&full, queued, page_rounds).await?;
    full.stop().await?;
    Ok((memory, start, page))
}

impl SingleNodeFigures {
    /// Tasks per second over the bare spawns per second of two threads.
    fn throughput_ratio(&self) -> f64 {
        self.throughput.per_second / self.baseline.two_threads_per_second
    }

    /// The duration of a claim from the largest backlog over that from the smallest.
    fn claim_growth(&self, p50: impl Fn(&ClaimLatency) -> f64) -> f64 {
        match (self.claims.first(), self.claims.last()) {
            (Some(first), Some(last)) if p50(first) > 0.0 => p50(last) / p50(first),
            _ => 1.0,
        }
    }

    /// The duration of a claim while many tasks wait for a root that no executor has, over that from the same backlog
    /// without them.
    fn unclaimable_cost(&self, p50: impl Fn(&ClaimLatency) -> f64) -> f64 {
        match self.claims.first() {
            Some(first) if p50(first) > 0.0 => p50(&self.claims_beside_unclaimable) / p50(first),
            _ => 1.0,
        }
    }
}

impl Figures for SingleNodeFigures {
    fn ratio(&self) -> Option<f64> {
        Some(self.throughput_ratio())
    }

    fn table(&self) -> FigureTable {
        let mut table = FigureTable::of_figures();
        let steady = if self.steady { "yes" } else { "NO" };
        table.add_figure("machine left alone", (steady.to_string(), ""));
        table.add_figure("bare spawns, 1 thread", rate(self.baseline.one_thread_per_second));
        table.add_figure(
            "bare spawns, 2 threads",
            rate(self.baseline.two_threads_per_second),
        );
        table.add_figure("bare spawn, p50", millis(self.baseline.p50_seconds));
        table.add_figure(
            format!("{} tasks, add to done", self.throughput.tasks),
            rate(self.throughput.per_second),
        );
        table.add_figure(
            "  over bare spawns, 2 threads",
            (format!("{:.2}", self.throughput_ratio()), ""),
        );
        self.latency.add_to(&mut table);
        for adds in &self.adds {
            adds.add_to(&mut table);
        }
        for claims in self.claims.iter().chain([&self.claims_beside_unclaimable]) {
            let backlog = match claims.unclaimable {
                0 => claims.backlog.to_string(),
                unclaimable => format!("{} beside {unclaimable}", claims.backlog),
            };
            table.add_figure(
                format!("claim 1 of {backlog}, p50"),
                millis(claims.one_p50_seconds),
            );
            table.add_figure(
                format!("claim 16 of {backlog}, p50"),
                millis(claims.sixteen_p50_seconds),
            );
        }
        table.add_figure(
            format!("memory with {} queued", self.memory.queued),
            mebibytes(self.memory.resident_bytes),
        );
        table.add_figure("start, empty store", millis(self.start.empty_seconds));
        table.add_figure(
            format!("start, {} queued", self.start.queued),
            millis(self.start.full_seconds),
        );
        table.add_figure("  memory then", mebibytes(self.start.full_resident_bytes));
        table.add_figure(
            format!("GET / with {} tasks, p50", self.page.tasks),
            millis(self.page.p50_seconds),
        );
        table.add_figure("  p99", millis(self.page.p99_seconds));
        table
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        let growth = self
            .claim_growth(|claims| claims.one_p50_seconds)
            .max(self.claim_growth(|claims| claims.sixteen_p50_seconds));
        let unclaimable_cost = self
            .unclaimable_cost(|claims| claims.one_p50_seconds)
            .max(self.unclaimable_cost(|claims| claims.sixteen_p50_seconds));
        let resident = self.memory.resident_bytes.max(self.start.full_resident_bytes);
        let over_spawn = self.latency.p50_seconds - self.baseline.p50_seconds;
        vec![
            ReleaseTarget::new(
                "throughput over bare spawns of 2 threads",
                format!(">= {MIN_THROUGHPUT_RATIO}"),
                format!("{:.2}", self.throughput_ratio()),
                self.throughput_ratio() >= MIN_THROUGHPUT_RATIO,
            ),
            ReleaseTarget::new(
                "idle p50 over one bare spawn",
                format!("<= {:.1} ms", MAX_SECONDS_OVER_SPAWN * 1e3),
                format!("{:.2} ms", over_spawn * 1e3),
                over_spawn <= MAX_SECONDS_OVER_SPAWN,
            ),
            ReleaseTarget::new(
                "claim from the largest backlog over the smallest",
                format!("<= {MAX_CLAIM_GROWTH}"),
                format!("{growth:.2}"),
                growth <= MAX_CLAIM_GROWTH,
            ),
            ReleaseTarget::new(
                "claim beside tasks that no executor can run",
                format!("<= {MAX_UNCLAIMABLE_COST}"),
                format!("{unclaimable_cost:.2}"),
                unclaimable_cost <= MAX_UNCLAIMABLE_COST,
            ),
            ReleaseTarget::new(
                "resident memory with the largest backlog",
                format!("< {MAX_MEMORY_MIB} MiB"),
                format!("{} MiB", resident >> 20),
                resident < MAX_MEMORY_MIB << 20,
            ),
            ReleaseTarget::new(
                "start with an empty store",
                format!("< {MAX_EMPTY_START_SECONDS} s"),
                format!("{:.3} s", self.start.empty_seconds),
                self.start.empty_seconds < MAX_EMPTY_START_SECONDS,
            ),
            ReleaseTarget::new(
                "start with the largest backlog",
                format!("< {MAX_FULL_START_SECONDS} s"),
                format!("{:.3} s", self.start.full_seconds),
                self.start.full_seconds < MAX_FULL_START_SECONDS,
            ),
            ReleaseTarget::new(
                "p50 of the first page with the largest backlog",
                format!("< {:.0} ms", MAX_PAGE_SECONDS * 1e3),
                format!("{:.1} ms", self.page.p50_seconds * 1e3),
                self.page.p50_seconds < MAX_PAGE_SECONDS,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> SingleNodeFigures {
        let claims = |backlog, p50| ClaimLatency {
            backlog,
            unclaimable: 0,
            one_p50_seconds: p50,
            sixteen_p50_seconds: p50,
        };
        SingleNodeFigures {
            steady: true,
            baseline: SpawnBaseline {
                one_thread_per_second: 1000.0,
                two_threads_per_second: 2000.0,
                p50_seconds: 0.001,
            },
            throughput: TaskThroughput {
                tasks: 1000,
                seconds: 1.0,
                per_second: 1000.0,
            },
            latency: IdleLatency {
                rounds: 1,
                p50_seconds: 0.006,
                p99_seconds: 0.007,
            },
            adds: Vec::new(),
            claims: vec![claims(1000, 0.001), claims(1_000_000, 0.002)],
            claims_beside_unclaimable: claims(1000, 0.0015),
            memory: BacklogMemory {
                queued: 1,
                resident_bytes: (300 << 20) - 1,
            },
            start: StartTimes {
                empty_seconds: 0.9,
                queued: 1,
                full_seconds: 1.9,
                full_resident_bytes: 0,
            },
            page: PageLatency {
                tasks: 1,
                p50_seconds: 0.049,
                p99_seconds: 0.1,
            },
        }
    }

    #[test]
    fn targets_are_met_at_their_bound_and_missed_beyond_it() {
        assert!(figures().targets().iter().all(|target| target.met));
        let check = |spoil: fn(&mut SingleNodeFigures)| {
            let mut figures = figures();
            spoil(&mut figures);
            assert_eq!(figures.targets().iter().filter(|target| !target.met).count(), 1);
        };
        check(|figures| figures.throughput.per_second = 999.0);
        check(|figures| figures.latency.p50_seconds = 0.0061);
        check(|figures| figures.claims[1].sixteen_p50_seconds = 0.0021);
        check(|figures| figures.claims_beside_unclaimable.one_p50_seconds = 0.0016);
        check(|figures| figures.start.full_resident_bytes = 300 << 20);
        check(|figures| figures.start.empty_seconds = 1.0);
        check(|figures| figures.start.full_seconds = 2.0);
        check(|figures| figures.page.p50_seconds = 0.05);
    }
}
