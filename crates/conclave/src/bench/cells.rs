//! What cells cost: for one run, for many tasks, in memory, and for the program itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sandbox::{Input, Launcher, Limits, Spec, WORKSPACE, Warden};
use serde::Serialize;

use super::figures::{Target, target};
use super::server::Server;
use super::spread::percentile;
use super::throughput::{self, Throughput};
use super::{Plan, burn, spawns};
use crate::config::Layers;
use crate::node::options;
use crate::print::complain;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellFigures {
    pub(crate) spawn_p50_seconds: f64,
    pub(crate) run_p50_seconds: f64,
    pub(crate) ready_p50_seconds: f64,
    pub(crate) bwrap_p50_seconds: f64,
    pub(crate) none: Throughput,
    pub(crate) cell: Throughput,
    /// Memory that is nobody else's. A ready cell has none but this: its processes share the warden's.
    pub(crate) warden_bytes: u64,
    pub(crate) outside_seconds: f64,
    pub(crate) inside_seconds: f64,
    pub(crate) own_cpu_seconds: f64,
    pub(crate) measured_cpu_seconds: f64,
}

const OVER_SPAWN_SECONDS: f64 = 0.000_35;
const OVER_BWRAP: f64 = 3.0;
const OVER_NONE: f64 = 0.55;
const MEMORY: u64 = 4 << 20;
const CPU_SHARE: f64 = 0.02;
const CPU_SECONDS: f64 = 0.005;
/// What the machine's noise may make of it.
const SAME_SPEED: f64 = 1.1;
/// Of as many tasks as there are in each, so that whatever else the machine does hits both alike.
const TURNS: usize = 25;
const BURN_TURNS: usize = 5;
const BURN_ROUNDS: &str = "100000000";

pub(crate) async fn measure_cells(plan: &Plan, bwrap: &str, folder: &Path) -> Result<CellFigures> {
    let config = Layers::gather(None, Vec::new())?.config()?;
    let cells = options::cells(&config).context("no cells are configured")?;
    let ground = cells.prepare_once()?;
    let mut warden = Launcher::this_binary(ground.isolation.clone())
        .start()
        .map_err(sandbox::WallError::from)?;
    let warden_bytes = private(warden.pid())?;
    complain("measuring runs, in turns: bare, in a cell, by bwrap");
    let runs = runs(&mut warden, bwrap, plan.latency_rounds)?;
    complain("measuring a program that only computes");
    let burnt = burn_both(&mut warden)?;
    drop(warden);
    ground.leave()?;

    complain(format_args!(
        "measuring {} tasks, in turns: with isolation none, with isolation cell",
        plan.tasks
    ));
    let without = Server::start_apart(&folder.join("none"), "auto", "none").await?;
    let with = Server::start_apart(&folder.join("cell"), "auto", "cell").await?;
    let (mut none, mut cell) = (Throughput::default(), Throughput::default());
    for _ in 0..TURNS {
        none.add(throughput::measure(&without.client, plan.tasks / TURNS).await?);
        cell.add(throughput::measure(&with.client, plan.tasks / TURNS).await?);
    }
    without.stop().await?;
    with.stop().await?;
    let p50 = |mut spans: Vec<Duration>| percentile(&mut spans, 50).as_secs_f64();
    Ok(CellFigures {
        spawn_p50_seconds: p50(runs.bare),
        run_p50_seconds: p50(runs.cell),
        ready_p50_seconds: p50(runs.ready),
        bwrap_p50_seconds: p50(runs.bwrap),
        none,
        cell,
        warden_bytes,
        outside_seconds: burnt.outside.as_secs_f64(),
        inside_seconds: burnt.inside.as_secs_f64(),
        own_cpu_seconds: burnt.own,
        measured_cpu_seconds: burnt.measured.as_secs_f64(),
    })
}

struct Runs {
    bare: Vec<Duration>,
    cell: Vec<Duration>,
    ready: Vec<Duration>,
    bwrap: Vec<Duration>,
}

struct Burnt {
    outside: Duration,
    inside: Duration,
    own: f64,
    measured: Duration,
}

impl Burnt {
    fn wrong(&self) -> f64 {
        (self.measured.as_secs_f64() - self.own).abs()
    }

    /// The quickest of both, for what else the machine does only ever adds to it; and the worst of what was measured.
    fn and(self, other: Burnt) -> Burnt {
        let (own, measured) = match other.wrong() > self.wrong() {
            true => (other.own, other.measured),
            false => (self.own, self.measured),
        };
        Burnt {
            outside: self.outside.min(other.outside),
            inside: self.inside.min(other.inside),
            own,
            measured,
        }
    }
}

/// In turns, so that whatever else the machine does hits all of them alike.
fn runs(warden: &mut Warden, bwrap: &str, rounds: usize) -> Result<Runs> {
    let mut runs = Runs {
        bare: Vec::new(),
        cell: Vec::new(),
        ready: Vec::new(),
        bwrap: Vec::new(),
    };
    let spec = spec(&[spawns::PROGRAM]);
    for _ in 0..rounds {
        let began = Instant::now();
        let status = Command::new(spawns::PROGRAM)
            .status()
            .context("could not start a bare process")?;
        runs.bare.push(began.elapsed());
        ensure!(status.success(), "{} failed", spawns::PROGRAM);

        let ticket = warden.ticket();
        let began = Instant::now();
        let outcome = warden.run(&ticket, &spec)?;
        runs.cell.push(began.elapsed());
        ensure!(
            outcome.exit_code == Some(0),
            "{} failed in a cell: {outcome:?}",
            spawns::PROGRAM
        );
        let began = Instant::now();
        warden.renew()?;
        warden.wait_until_ready()?;
        runs.ready.push(began.elapsed());

        let began = Instant::now();
        let status = Command::new(bwrap)
            .args(["--unshare-all", "--ro-bind", "/", "/", spawns::PROGRAM])
            .status()
            .with_context(|| {
                format!("could not start {bwrap}; install bubblewrap, or name it with --bwrap")
            })?;
        runs.bwrap.push(began.elapsed());
        ensure!(status.success(), "{bwrap} failed");
    }
    Ok(runs)
}

fn burn_both(warden: &mut Warden) -> Result<Burnt> {
    let folder = warden.folder().context("the warden has made no folder")?;
    let program = folder.join("box/burn");
    fs::copy("/proc/self/exe", &program).context("could not copy a program into the cell")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut burnt = burn_once(warden)?;
    for _ in 1..BURN_TURNS {
        burnt = burnt.and(burn_once(warden)?);
    }
    Ok(burnt)
}

fn burn_once(warden: &mut Warden) -> Result<Burnt> {
    let words = [burn::VERB, BURN_ROUNDS];
    let began = Instant::now();
    let output = Command::new("/proc/self/exe").args(words).output()?;
    let outside = began.elapsed();
    ensure!(output.status.success(), "a program that only computes failed");
    let ticket = warden.ticket();
    let outcome = warden.run(&ticket, &spec(&[&["./burn"], &words[..]].concat()))?;
    let said = String::from_utf8_lossy(&outcome.stdout.bytes).trim().to_string();
    let own = said
        .parse()
        .with_context(|| format!("a program in a cell said '{said}': {outcome:?}"))?;
    Ok(Burnt {
        outside,
        inside: outcome.wall,
        own,
        measured: outcome.cpu,
    })
}

fn spec(words: &[&str]) -> Spec {
    Spec {
        argv: words.iter().map(Into::into).collect(),
        env: Vec::new(),
        directory: WORKSPACE.into(),
        input: Input::Bytes(Vec::new()),
        // What a judge would set, so that all that looks after them is at work.
        limits: Limits {
            wall: Some(Duration::from_secs(60)),
            cpu: Some(Duration::from_secs(30)),
            memory: Some(256 << 20),
            processes: Some(64),
            ..Limits::default()
        },
        keep: 1 << 20,
        network: None,
    }
}

/// Bytes that would be free without this process.
fn private(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let kib: u64 = lines
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    Ok(kib << 10)
}

impl CellFigures {
    pub(crate) fn targets(&self) -> Vec<Target> {
        let over_spawn = self.run_p50_seconds - self.spawn_p50_seconds;
        let over_bwrap = self.bwrap_p50_seconds / self.run_p50_seconds;
        let over_none = self.cell.per_second / self.none.per_second;
        let slower = self.inside_seconds / self.outside_seconds;
        let wrong = (self.measured_cpu_seconds - self.own_cpu_seconds).abs();
        vec![
            target(
                "one run in a ready cell over a bare spawn, p50",
                format!("<= {:.2} ms", OVER_SPAWN_SECONDS * 1e3),
                format!("{:.2} ms", over_spawn * 1e3),
                over_spawn <= OVER_SPAWN_SECONDS,
            ),
            target(
                "bwrap over one run in a ready cell, p50",
                format!(">= {OVER_BWRAP}"),
                format!("{over_bwrap:.2}"),
                over_bwrap >= OVER_BWRAP,
            ),
            target(
                "tasks in cells over tasks without",
                format!(">= {OVER_NONE}"),
                format!("{over_none:.2}"),
                over_none >= OVER_NONE,
            ),
            target(
                "memory of a warden with its ready cell",
                format!("<= {} MiB", MEMORY >> 20),
                format!("{:.1} MiB", self.warden_bytes as f64 / f64::from(1 << 20)),
                self.warden_bytes <= MEMORY,
            ),
            target(
                "a busy program in a cell over outside",
                format!("<= {SAME_SPEED}"),
                format!("{slower:.2}"),
                slower <= SAME_SPEED,
            ),
            target(
                "measured CPU time off by",
                format!("<= {:.0} % or {:.0} ms", CPU_SHARE * 100.0, CPU_SECONDS * 1e3),
                format!("{:.2} ms", wrong * 1e3),
                wrong <= CPU_SECONDS.max(self.own_cpu_seconds * CPU_SHARE),
            ),
        ]
    }
}
