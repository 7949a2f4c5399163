//! What a task loses to a hostile program in the slot beside it.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::{Client, NewTask, Outcome, Task};
use hostile::{BUSY, HOSTILE, MEASURING};
use model::{Status, TaskId};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::figures::{Target, target};
use super::server::Server;
use super::spread::percentile;
use crate::print::complain;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NeighbourFigures {
    pub(crate) cores: usize,
    /// Whether the machine was left alone meanwhile; if not, the figures say little.
    pub(crate) steady: bool,
    pub(crate) alone: Times,
    pub(crate) beside_busy: Times,
    pub(crate) neighbours: Vec<Neighbour>,
}

/// Of the measuring task's execute step, in the middle of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Neighbour {
    pub(crate) name: &'static str,
    pub(crate) attacks: &'static str,
    pub(crate) over_alone: Ratios,
    /// Over the task beside a neighbour that only computes. A machine with both cores at work is slower than with one, for
    /// clocks and caches are shared: what is left is what this neighbour does beyond any other.
    pub(crate) over_busy: Ratios,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ratios {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// What the task takes with nobody and with nobody hostile beside it.
#[derive(Clone, Copy, Debug)]
struct Baselines {
    alone: Times,
    busy: Times,
}

const CPU_RATIO: f64 = 1.05;
const WALL_RATIO: f64 = 2.2;
/// What the goals are for.
const CORES: usize = 2;
const SLOTS: &str = "2";
/// The first run warms the caches.
const WARM_UP: usize = 1;
/// Beyond any measurement, so that a program ends by itself only where a limit ends it.
const ATTACK_SECONDS: u64 = 60;
const WAIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// How far any of the task's times without a hostile neighbour may be from the one in the middle.
const STEADY: f64 = 1.15;

pub(crate) async fn measure_neighbours(rounds: usize, folder: &Path) -> Result<NeighbourFigures> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < CORES {
        complain(format_args!(
            "this machine has {cores} core and the goals are for {CORES}: the wall times will be beyond them"
        ));
    }
    let server = Server::start_apart(&folder.join("cell"), SLOTS, "cell").await?;
    let measured = measure_all(&server.client, rounds).await;
    // In order also after a failure, so that no control group is left.
    server.stop().await?;
    let (baselines, neighbours) = measured?;
    let (alone, is_alone_steady) = middle_of(&baselines, |one| one.alone);
    let (beside_busy, is_busy_steady) = middle_of(&baselines, |one| one.busy);
    let steady = is_alone_steady && is_busy_steady;
    if !steady {
        complain(
            "without a hostile neighbour the task was not always equally fast: the machine has other work, so trust no figure",
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

/// And whether all of them are near it.
fn middle_of(baselines: &[Baselines], times: fn(&Baselines) -> Times) -> (Times, bool) {
    let all: Vec<_> = baselines.iter().map(times).collect();
    let middle = Times::middle(&all);
    (middle, all.iter().all(|one| one.agree_with(middle)))
}

/// The task's times without a hostile neighbour, before each of them, and what it lost to them.
async fn measure_all(client: &Client, rounds: usize) -> Result<(Vec<Baselines>, Vec<Neighbour>)> {
    measure(client, WARM_UP).await?;
    // The first row shows how exact the others are: over a busy neighbour it is 1 but for noise.
    let harmless = ("harmless", "nothing: it only computes", BUSY.task());
    let hostile = HOSTILE.map(|hostile| (hostile.name, hostile.attacks, hostile.task(ATTACK_SECONDS)));
    let (mut baselines, mut neighbours) = (Vec::new(), Vec::new());
    for (name, attacks, task) in [harmless].into_iter().chain(hostile) {
        complain(format_args!(
            "measuring a task alone, beside a busy one, and beside {name}"
        ));
        // Each time anew, so that whatever else the machine does hits all alike.
        let without = Baselines {
            alone: measure(client, rounds).await?,
            busy: measure_beside(client, BUSY.task(), rounds)
                .await
                .context("with a task in the other slot that only computes")?,
        };
        baselines.push(without);
        let beside = measure_beside(client, task, rounds)
            .await
            .with_context(|| format!("with {name} in the other slot"))?;
        neighbours.push(Neighbour {
            name,
            attacks,
            over_alone: beside.over(without.alone),
            over_busy: beside.over(without.busy),
        });
    }
    Ok((baselines, neighbours))
}

async fn measure_beside(client: &Client, neighbour: Value, rounds: usize) -> Result<Times> {
    let (current, stop) = (Cell::new(None), CancellationToken::new());
    let (times, ()) = tokio::try_join!(
        async {
            await_running(client, &current).await?;
            let times = measure(client, rounds).await;
            stop.cancel();
            times
        },
        keep_running(client, &neighbour, &current, &stop),
    )?;
    Ok(times)
}

/// Starts it again whenever a limit has ended it.
async fn keep_running(
    client: &Client,
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
                // It may be done by now; then there is nothing to cancel, and its end says so.
                let _ = client.cancel(id).await;
                await_done(client, id).await?
            }
        };
        ensure!(
            !matches!(done.status, Status::SystemError | Status::CompileFailed),
            "the neighbour ended as {}: {:?}",
            done.status,
            done.result
        );
    }
    Ok(())
}

async fn await_done(client: &Client, id: TaskId) -> Result<Task> {
    loop {
        let task = client.get(id, Some(WAIT)).await?;
        if task.done {
            return Ok(task);
        }
    }
}

/// Until its program is at work for the first time, and no longer its compiler.
async fn await_running(client: &Client, current: &Cell<Option<TaskId>>) -> Result<()> {
    loop {
        if let Some(id) = current.get() {
            let task = client.get(id, None).await?;
            if task.done || task.status == Status::Running {
                return Ok(());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn measure(client: &Client, rounds: usize) -> Result<Times> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let outcome = measure_once(client).await?;
        times.push(Times {
            cpu_seconds: outcome.cpu_seconds,
            wall_seconds: outcome.wall_seconds,
        });
    }
    Ok(Times::middle(&times))
}

async fn measure_once(client: &Client) -> Result<Outcome> {
    let task: NewTask = serde_json::from_value(MEASURING.task())?;
    let task = client.add(&task, Some(WAIT)).await?;
    ensure!(task.done, "the measuring task was not done within {WAIT:?}");
    let result = task.result.clone();
    if task.status == Status::CompileFailed {
        let compile = result.and_then(|result| result.compile);
        let said = compile.map(|compile| compile.stderr).unwrap_or_default();
        bail!(
            "the C compiler failed in a cell; install one that is found as `cc`: {}",
            said.trim()
        );
    }
    let outcome = result
        .and_then(|result| result.execute)
        .filter(|outcome| task.status == Status::Success && outcome.stdout == MEASURING.right);
    outcome.with_context(|| format!("the measuring task went wrong: {task:?}"))
}

impl Times {
    /// Of each kind on its own.
    fn middle(all: &[Times]) -> Times {
        let middle = |seconds: fn(&Times) -> f64| {
            let mut spans: Vec<_> = all
                .iter()
                .map(|times| Duration::from_secs_f64(seconds(times)))
                .collect();
            percentile(&mut spans, 50).as_secs_f64()
        };
        Times {
            cpu_seconds: middle(|times| times.cpu_seconds),
            wall_seconds: middle(|times| times.wall_seconds),
        }
    }

    fn over(self, other: Times) -> Ratios {
        Ratios {
            cpu: self.cpu_seconds / other.cpu_seconds,
            wall: self.wall_seconds / other.wall_seconds,
        }
    }

    fn agree_with(self, other: Times) -> bool {
        let near = |one: f64, other: f64| one.max(other) <= one.min(other) * STEADY;
        near(self.cpu_seconds, other.cpu_seconds) && near(self.wall_seconds, other.wall_seconds)
    }
}

impl NeighbourFigures {
    pub(crate) fn targets(&self) -> Vec<Target> {
        let worst = |ratio: fn(&Neighbour) -> f64| self.neighbours.iter().map(ratio).fold(0.0, f64::max);
        let at_most = |what, bound: f64, found: f64| {
            target(what, format!("<= {bound}"), format!("{found:.2}"), found <= bound)
        };
        vec![
            at_most(
                "CPU time beside the worst neighbour over alone",
                CPU_RATIO,
                worst(|one| one.over_alone.cpu),
            ),
            at_most(
                "CPU time beside the worst neighbour over a busy one",
                CPU_RATIO,
                worst(|one| one.over_busy.cpu),
            ),
            at_most(
                "wall time beside the worst neighbour over alone",
                WALL_RATIO,
                worst(|one| one.over_alone.wall),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Times = Times {
        cpu_seconds: 0.5,
        wall_seconds: 0.5,
    };

    /// CPU time over alone and over busy, wall time over alone.
    fn neighbour([alone, busy, wall]: [f64; 3]) -> Neighbour {
        Neighbour {
            name: "",
            attacks: "",
            over_alone: Ratios { cpu: alone, wall },
            over_busy: Ratios { cpu: busy, wall: 1.0 },
        }
    }

    #[test]
    fn the_worst_neighbour_counts() {
        let check = |ratios: [[f64; 3]; 2], expected: [bool; 3]| {
            let figures = NeighbourFigures {
                cores: CORES,
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
    fn one_of_them_that_is_far_from_the_middle_is_seen() {
        let check = |busy: [f64; 3], expected: (f64, bool)| {
            let baselines = busy.map(|cpu_seconds| Baselines {
                alone: HALF,
                busy: Times { cpu_seconds, ..HALF },
            });
            let (middle, steady) = middle_of(&baselines, |one| one.busy);
            assert_eq!((middle.cpu_seconds, steady), expected, "{busy:?}");
            assert!(middle_of(&baselines, |one| one.alone).1);
        };
        check([0.5, 0.55, 0.5], (0.5, true));
        check([0.5, 0.6, 0.5], (0.5, false));
    }
}
