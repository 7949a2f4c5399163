//! How much a hostile program in the other slot slows down a task in a cell.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::{HttpClient, NewTask, Outcome, Task};
use hostile::{BUSY_NEIGHBOUR, HOSTILE_TASKS, MEASURING_TASK};
use model::{TaskId, TaskStatus};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::percentile::percentile;
use crate::progress;
use crate::report::{FigureTable, Figures, ReleaseTarget};
use crate::up_process::UpProcess;

/// What `conclave bench --neighbours` measures: how much each hostile program slows down a task beside it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NeighbourFigures {
    pub(crate) cores: usize,
    /// Whether the baselines were equal all the time. If not, the machine had other load and the figures mean little.
    pub(crate) steady: bool,
    pub(crate) alone: StepTimes,
    pub(crate) beside_busy: StepTimes,
    pub(crate) neighbours: Vec<NeighbourImpact>,
}

/// CPU and wall time of the execute step of the benchmark's measuring task: one run, or medians of several.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StepTimes {
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// How much slower the benchmark's measuring task is beside one hostile program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NeighbourImpact {
    pub(crate) name: &'static str,
    pub(crate) attacks: &'static str,
    pub(crate) over_alone: StepTimeRatios,
    /// Against the task beside a CPU-bound program. Two busy cores share clock and caches, so any neighbour costs
    /// something; this ratio shows the harm beyond that.
    pub(crate) over_busy: StepTimeRatios,
}

/// CPU and wall time of the benchmark's measuring task beside a hostile program, as ratios to a baseline.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct StepTimeRatios {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// The times of the benchmark's measuring task without a hostile neighbour: alone, and beside a CPU-bound program.
#[derive(Clone, Copy, Debug)]
struct BaselineTimes {
    alone: StepTimes,
    busy: StepTimes,
}

const MAX_CPU_RATIO: f64 = 1.05;
const MAX_WALL_RATIO: f64 = 2.2;
/// The targets assume this many cores.
const TARGET_CORES: usize = 2;
const SLOTS: &str = "2";
/// Runs that are not counted: they warm the caches.
const WARM_UP_ROUNDS: usize = 1;
/// Longer than any measurement, so that a hostile program ends early only when a limit ends it.
const ATTACK_SECONDS: u64 = 60;
const MAX_WAIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Largest ratio between a baseline and the median of all baselines on a machine without other load.
const STEADY_RATIO: f64 = 1.15;

pub(crate) async fn measure(rounds: usize, folder: &Path) -> Result<NeighbourFigures> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < TARGET_CORES {
        progress(format_args!(
            "this machine has {cores} core and the targets assume {TARGET_CORES}, so the wall times will miss them"
        ));
    }
    let server = UpProcess::start_with_isolation(&folder.join("cell"), SLOTS, "cell").await?;
    let measured = measure_all(&server.client, rounds).await;
    // Stopped in order after a failure too, so that no control group is left behind.
    server.stop().await?;
    let (baselines, neighbours) = measured?;
    let (alone, is_alone_steady) = median_of(&baselines, |one| one.alone);
    let (beside_busy, is_busy_steady) = median_of(&baselines, |one| one.busy);
    let steady = is_alone_steady && is_busy_steady;
    if !steady {
        progress(
            "the task was not always equally fast without a hostile neighbour: the machine has other load, so the figures are not reliable",
        );
    }
    Ok(NeighbourFigures {
        cores,
        steady,
        alone,
        beside_busy,
        neighbours,
    })
}

/// The median of the baselines, and whether all of them are close to it.
fn median_of(baselines: &[BaselineTimes], times: fn(&BaselineTimes) -> StepTimes) -> (StepTimes, bool) {
    let all: Vec<_> = baselines.iter().map(times).collect();
    let median = StepTimes::median(&all);
    (median, all.iter().all(|one| one.agree_with(median)))
}

/// The baselines measured before each program, and the impact of each program.
async fn measure_all(
    client: &HttpClient,
    rounds: usize,
) -> Result<(Vec<BaselineTimes>, Vec<NeighbourImpact>)> {
    measure_task(client, WARM_UP_ROUNDS).await?;
    // The first row shows how exact the others are: against a busy neighbour its ratio is 1, except for noise.
    let harmless = ("harmless", "nothing: it only computes", BUSY_NEIGHBOUR.task());
    let hostile = HOSTILE_TASKS.map(|hostile| (hostile.name, hostile.attacks, hostile.task(ATTACK_SECONDS)));
    let (mut baselines, mut neighbours) = (Vec::new(), Vec::new());
    for (name, attacks, task) in [harmless].into_iter().chain(hostile) {
        progress(format_args!(
            "measuring a task alone, beside a busy program, and beside {name}"
        ));
        // Measured again for each program, so that other load slows the baseline and the measurement equally.
        let without = BaselineTimes {
            alone: measure_task(client, rounds).await?,
            busy: measure_beside(client, BUSY_NEIGHBOUR.task(), rounds)
                .await
                .context("with a CPU-bound task in the other slot")?,
        };
        baselines.push(without);
        let beside = measure_beside(client, task, rounds)
            .await
            .with_context(|| format!("with {name} in the other slot"))?;
        neighbours.push(NeighbourImpact {
            name,
            attacks,
            over_alone: beside.over(without.alone),
            over_busy: beside.over(without.busy),
        });
    }
    Ok((baselines, neighbours))
}

async fn measure_beside(client: &HttpClient, neighbour: Value, rounds: usize) -> Result<StepTimes> {
    let (current, stop) = (Cell::new(None), CancellationToken::new());
    let (times, ()) = tokio::try_join!(
        async {
            await_running(client, &current).await?;
            let times = measure_task(client, rounds).await;
            stop.cancel();
            times
        },
        keep_running(client, &neighbour, &current, &stop),
    )?;
    Ok(times)
}

/// Starts the neighbour again each time a limit ends it, until `stop` is cancelled.
async fn keep_running(
    client: &HttpClient,
    neighbour: &Value,
    current: &Cell<Option<TaskId>>,
    stop: &CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        let task: NewTask = serde_json::from_value(neighbour.clone())?;
        let id = client.add(&task, None).await?.id;
        current.set(Some(id));
        let done = tokio::select! {
            done = await_done(client, id) => done?,
            () = stop.cancelled() => {
                // The cancel fails if the task is done by now; `await_done` then returns at once.
                let _ = client.cancel(id).await;
                await_done(client, id).await?
            }
        };
        ensure!(
            !matches!(done.status, TaskStatus::SystemError | TaskStatus::CompileFailed),
            "the neighbour ended as {}: {:?}",
            done.status,
            done.result
        );
    }
    Ok(())
}

async fn await_done(client: &HttpClient, id: TaskId) -> Result<Task> {
    loop {
        let task = client.get(id, Some(MAX_WAIT)).await?;
        if task.done {
            return Ok(task);
        }
    }
}

/// Waits until the neighbour's program runs, that is, until its compile step is over.
async fn await_running(client: &HttpClient, current: &Cell<Option<TaskId>>) -> Result<()> {
    loop {
        if let Some(id) = current.get() {
            let task = client.get(id, None).await?;
            if task.done || task.status == TaskStatus::Running {
                return Ok(());
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn measure_task(client: &HttpClient, rounds: usize) -> Result<StepTimes> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let outcome = measure_once(client).await?;
        times.push(StepTimes {
            cpu_seconds: outcome.cpu_seconds,
            wall_seconds: outcome.wall_seconds,
        });
    }
    Ok(StepTimes::median(&times))
}

async fn measure_once(client: &HttpClient) -> Result<Outcome> {
    let task: NewTask = serde_json::from_value(MEASURING_TASK.task())?;
    let task = client.add(&task, Some(MAX_WAIT)).await?;
    ensure!(task.done, "the measuring task was not done within {MAX_WAIT:?}");
    let result = task.result.clone();
    if task.status == TaskStatus::CompileFailed {
        let compile = result.and_then(|result| result.compile);
        let stderr = compile.map(|compile| compile.stderr).unwrap_or_default();
        bail!(
            "the C compiler failed in a cell; install one as `cc`: {}",
            stderr.trim()
        );
    }
    let outcome = result.and_then(|result| result.execute).filter(|outcome| {
        task.status == TaskStatus::Success && outcome.stdout == MEASURING_TASK.expected_output
    });
    outcome.with_context(|| format!("the measuring task failed: {task:?}"))
}

impl StepTimes {
    /// The median of the CPU times and the median of the wall times.
    fn median(all: &[StepTimes]) -> StepTimes {
        let median = |seconds: fn(&StepTimes) -> f64| {
            let mut durations: Vec<_> = all
                .iter()
                .map(|times| Duration::from_secs_f64(seconds(times)))
                .collect();
            percentile(&mut durations, 50).as_secs_f64()
        };
        StepTimes {
            cpu_seconds: median(|times| times.cpu_seconds),
            wall_seconds: median(|times| times.wall_seconds),
        }
    }

    fn over(self, other: StepTimes) -> StepTimeRatios {
        StepTimeRatios {
            cpu: self.cpu_seconds / other.cpu_seconds,
            wall: self.wall_seconds / other.wall_seconds,
        }
    }

    fn agree_with(self, other: StepTimes) -> bool {
        let near = |one: f64, other: f64| one.max(other) <= one.min(other) * STEADY_RATIO;
        near(self.cpu_seconds, other.cpu_seconds) && near(self.wall_seconds, other.wall_seconds)
    }
}

impl Figures for NeighbourFigures {
    fn table(&self) -> FigureTable {
        let row = |name: &str, figures: [String; 4], attacks: &str| {
            let mut cells = vec![name.to_string()];
            cells.extend(figures);
            cells.push(attacks.to_string());
            cells
        };
        let one_figure = |text: &str| [text.to_string(), String::new(), String::new(), String::new()];
        let steady = if self.steady { "yes" } else { "NO" };
        let (alone, busy) = (self.alone, self.beside_busy);
        let seconds = [
            alone.cpu_seconds,
            busy.cpu_seconds,
            alone.wall_seconds,
            busy.wall_seconds,
        ];
        let mut rows = vec![
            row("machine left alone", one_figure(steady), ""),
            row("cores", one_figure(&self.cores.to_string()), ""),
            row(
                "none hostile",
                seconds.map(|seconds| format!("{seconds:.3} s")),
                "",
            ),
        ];
        rows.extend(self.neighbours.iter().map(|neighbour| {
            let (alone, busy) = (neighbour.over_alone, neighbour.over_busy);
            let ratios = [alone.cpu, busy.cpu, alone.wall, busy.wall];
            row(
                neighbour.name,
                ratios.map(|ratio| format!("x {ratio:.2}")),
                neighbour.attacks,
            )
        }));
        FigureTable {
            headings: vec![
                "NEIGHBOUR",
                "CPU/ALONE",
                "CPU/BUSY",
                "WALL/ALONE",
                "WALL/BUSY",
                "IS AFTER",
            ],
            right_aligned: vec![1, 2, 3, 4],
            rows,
        }
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        let worst =
            |ratio: fn(&NeighbourImpact) -> f64| self.neighbours.iter().map(ratio).fold(0.0, f64::max);
        let at_most = |what, bound: f64, found: f64| {
            ReleaseTarget::new(what, format!("<= {bound}"), format!("{found:.2}"), found <= bound)
        };
        vec![
            at_most(
                "CPU time beside the worst neighbour over alone",
                MAX_CPU_RATIO,
                worst(|one| one.over_alone.cpu),
            ),
            at_most(
                "CPU time beside the worst neighbour over a busy one",
                MAX_CPU_RATIO,
                worst(|one| one.over_busy.cpu),
            ),
            at_most(
                "wall time beside the worst neighbour over alone",
                MAX_WALL_RATIO,
                worst(|one| one.over_alone.wall),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: StepTimes = StepTimes {
        cpu_seconds: 0.5,
        wall_seconds: 0.5,
    };

    /// CPU time over alone and over busy, wall time over alone.
    fn neighbour([alone, busy, wall]: [f64; 3]) -> NeighbourImpact {
        NeighbourImpact {
            name: "",
            attacks: "",
            over_alone: StepTimeRatios { cpu: alone, wall },
            over_busy: StepTimeRatios { cpu: busy, wall: 1.0 },
        }
    }

    #[test]
    fn targets_are_judged_by_the_worst_neighbour() {
        let check = |ratios: [[f64; 3]; 2], expected: [bool; 3]| {
            let figures = NeighbourFigures {
                cores: TARGET_CORES,
                steady: true,
                alone: HALF,
                beside_busy: HALF,
                neighbours: ratios.map(neighbour).into(),
            };
            let met: Vec<_> = figures.targets().iter().map(|target| target.met).collect();
            assert_eq!(met, expected, "{ratios:?}");
        };
        check([[1.0, 1.0, 1.0], [1.05, 1.05, 2.2]], [true, true, true]);
        check([[1.06, 1.0, 1.0], [1.0, 1.0, 1.0]], [false, true, true]);
        check([[1.0, 1.06, 1.0], [1.0, 1.0, 1.0]], [true, false, true]);
        check([[1.0, 1.0, 2.3], [1.0, 1.0, 1.0]], [true, true, false]);
    }

    #[test]
    fn a_baseline_far_from_the_median_is_noticed() {
        let check = |busy: [f64; 3], expected: (f64, bool)| {
            let baselines = busy.map(|cpu_seconds| BaselineTimes {
                alone: HALF,
                busy: StepTimes { cpu_seconds, ..HALF },
            });
            let (median, steady) = median_of(&baselines, |one| one.busy);
            assert_eq!((median.cpu_seconds, steady), expected, "{busy:?}");
            assert!(median_of(&baselines, |one| one.alone).1);
        };
        check([0.5, 0.55, 0.5], (0.5, true));
        check([0.5, 0.6, 0.5], (0.5, false));
    }
}
