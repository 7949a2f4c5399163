//! The cost of cells: for one run, for many tasks, in memory, and for the speed of the program itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{ExecutorState, HttpClient, NewTask};
use model::{LanguageName, RootName};
use sandbox::{CommandInput, CommandLimits, CommandSpec, SandboxOptions, WORKSPACE, Warden, WardenLauncher};
use serde::Serialize;

use crate::percentile::percentile;
use crate::report::{FigureTable, Figures, ReleaseTarget, kibibytes, millis, rate};
use crate::throughput::{self, TaskThroughput};
use crate::up_process::UpProcess;
use crate::{BenchSizes, burn, progress, spawns, trivial_task};

/// What `conclave bench --isolation cell` measures: runs in cells, bare spawns, tasks without cells, and bubblewrap.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CellFigures {
    pub(crate) spawn_p50_seconds: f64,
    pub(crate) run_p50_seconds: f64,
    pub(crate) ready_p50_seconds: f64,
    pub(crate) bwrap_p50_seconds: f64,
    pub(crate) none: TaskThroughput,
    pub(crate) cell: TaskThroughput,
    /// The same tasks in cells, with a language.
    pub(crate) language: TaskThroughput,
    /// The same tasks in cells, in a named root.
    pub(crate) root: TaskThroughput,
    /// How many tasks run at the same time.
    pub(crate) slots: u32,
    /// Private memory of a warden with a ready cell. The processes of the cell share the warden's memory.
    pub(crate) warden_bytes: u64,
    pub(crate) outside_seconds: f64,
    pub(crate) inside_seconds: f64,
    pub(crate) own_cpu_seconds: f64,
    pub(crate) measured_cpu_seconds: f64,
}

const MAX_SECONDS_OVER_SPAWN: f64 = 0.000_35;
const MIN_SPEEDUP_OVER_BWRAP: f64 = 3.0;
const MIN_RATIO_TO_NO_CELLS: f64 = 0.55;
/// Nothing measurable: the rest is noise of the machine.
const MIN_RATIO_OF_LANGUAGE: f64 = 0.95;
const MAX_SECONDS_OF_ROOT: f64 = 0.000_1;
const ROOT: &str = "bench";
const ROOT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_WARDEN_BYTES: u64 = 4 << 20;
/// The measured CPU time may be wrong by this share of itself, or by `MAX_CPU_ERROR_SECONDS` if that is more.
const MAX_CPU_ERROR_SHARE: f64 = 0.02;
const MAX_CPU_ERROR_SECONDS: f64 = 0.005;
/// A CPU-bound program is as fast in a cell as outside. The rest is noise of the machine.
const MAX_SLOWDOWN: f64 = 1.1;
/// The tasks with and without cells are measured in this many alternating batches, so that other load slows both equally.
const TASK_BATCHES: usize = 25;
const BURN_REPEATS: usize = 5;
const BURN_ROUNDS: &str = "100000000";

pub(crate) async fn measure(
    sizes: &BenchSizes,
    sandbox: &SandboxOptions,
    bwrap: &str,
    folder: &Path,
) -> Result<CellFigures> {
    let prepared_sandbox = sandbox.prepare_temporary()?;
    let mut warden = WardenLauncher::this_binary(prepared_sandbox.isolation.clone())
        .start()
        .map_err(sandbox::EnforcementError::from)?;
    let warden_bytes = private_bytes(warden.pid())?;
    progress("measuring runs, alternating: bare, in a cell, by bwrap");
    let runs = measure_runs(&mut warden, bwrap, sizes.latency_rounds)?;
    progress("measuring a CPU-bound program");
    let burn = measure_burn(&mut warden)?;
    drop(warden);
    prepared_sandbox.remove()?;

    progress(format_args!(
        "measuring {} tasks, alternating: with isolation none, with isolation cell",
        sizes.tasks
    ));
    let without = UpProcess::start_with_isolation(&folder.join("none"), "auto", "none").await?;
    let config = write_root(folder)?;
    let flags = [
        "--slots",
        "auto",
        "--isolation",
        "cell",
        "--config",
        config.to_str().context("a path in UTF-8")?,
    ];
    let with = UpProcess::start_with(&folder.join("cell"), &flags).await?;
    let slots = wait_for_root(&with.client).await?;
    let with_language = NewTask {
        // Every machine has it. The task has its own command, so the program is the same.
        language: Some(LanguageName::new("text")?),
        ..trivial_task()
    };
    let in_root = NewTask {
        root: Some(RootName::new(ROOT)?),
        ..trivial_task()
    };
    // The wardens in the root start with its first tasks.
    throughput::measure_task(&with.client, &in_root, 2 * slots as usize).await?;
    let [mut none, mut cell, mut language, mut root] = [TaskThroughput::default(); 4];
    let batch = sizes.tasks / TASK_BATCHES;
    for _ in 0..TASK_BATCHES {
        none.add(throughput::measure(&without.client, batch).await?);
        cell.add(throughput::measure(&with.client, batch).await?);
        language.add(throughput::measure_task(&with.client, &with_language, batch).await?);
        root.add(throughput::measure_task(&with.client, &in_root, batch).await?);
    }
    without.stop().await?;
    with.stop().await?;
    let p50 = |mut durations: Vec<Duration>| percentile(&mut durations, 50).as_secs_f64();
    Ok(CellFigures {
        spawn_p50_seconds: p50(runs.bare),
        run_p50_seconds: p50(runs.cell),
        ready_p50_seconds: p50(runs.ready),
        bwrap_p50_seconds: p50(runs.bwrap),
        none,
        cell,
        language,
        root,
        slots,
        warden_bytes,
        outside_seconds: burn.outside.as_secs_f64(),
        inside_seconds: burn.inside.as_secs_f64(),
        own_cpu_seconds: burn.own_cpu_seconds,
        measured_cpu_seconds: burn.measured_cpu.as_secs_f64(),
    })
}

/// Makes a root file system with the trivial program, and a configuration file that names it.
fn write_root(folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    let libraries = Command::new("ldd").arg(spawns::PROGRAM).output();
    let libraries = libraries.context("could not start ldd to list the libraries of the trivial program")?;
    let libraries = String::from_utf8(libraries.stdout)?;
    let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for path in paths.chain([spawns::PROGRAM]) {
        let copy = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().unwrap_or(&root))?;
        fs::copy(path, &copy).with_context(|| format!("could not copy {path}"))?;
    }
    let config = folder.join("conclave.toml");
    fs::write(
        &config,
        format!("[roots.{ROOT}]\npath = {:?}\n", root.display().to_string()),
    )?;
    Ok(config)
}

/// Waits until the executor has reported the root, and returns the number of its slots.
async fn wait_for_root(client: &HttpClient) -> Result<u32> {
    let deadline = Instant::now() + ROOT_TIMEOUT;
    loop {
        let executors = client.executors().await?;
        let has_root =
            |executor: &&ExecutorState| executor.roots.iter().any(|root| root.name.as_str() == ROOT);
        if let Some(executor) = executors.iter().find(has_root) {
            return Ok(executor.slots);
        }
        ensure!(Instant::now() < deadline, "the executor has no root '{ROOT}'");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Durations that the benchmark measured of one trivial program, run bare, in a cell and in bubblewrap.
struct RunDurations {
    bare: Vec<Duration>,
    cell: Vec<Duration>,
    /// Time to prepare the next cell after a run.
    ready: Vec<Duration>,
    bwrap: Vec<Duration>,
}

/// The benchmark's times of a CPU-bound program outside and inside of a cell, and its CPU time by two measurements.
struct BurnComparison {
    outside: Duration,
    inside: Duration,
    /// CPU time inside of the cell as the program itself measures it.
    own_cpu_seconds: f64,
    /// CPU time of the same run as the warden measures it.
    measured_cpu: Duration,
}

impl BurnComparison {
    fn cpu_error_seconds(&self) -> f64 {
        (self.measured_cpu.as_secs_f64() - self.own_cpu_seconds).abs()
    }

    /// Keeps the shorter durations, because other load can only make them longer, and the larger error in CPU time.
    fn merge(self, other: BurnComparison) -> BurnComparison {
        let worse = match other.cpu_error_seconds() > self.cpu_error_seconds() {
            true => &other,
            false => &self,
        };
        BurnComparison {
            outside: self.outside.min(other.outside),
            inside: self.inside.min(other.inside),
            own_cpu_seconds: worse.own_cpu_seconds,
            measured_cpu: worse.measured_cpu,
        }
    }
}

/// Alternates between the ways to run the program, so that other load slows all of them equally.
fn measure_runs(warden: &mut Warden, bwrap: &str, rounds: usize) -> Result<RunDurations> {
    let mut runs = RunDurations {
        bare: Vec::new(),
        cell: Vec::new(),
        ready: Vec::new(),
        bwrap: Vec::new(),
    };
    let spec = command_spec(&[spawns::PROGRAM]);
    for _ in 0..rounds {
        let began = Instant::now();
        let status = Command::new(spawns::PROGRAM)
            .status()
            .context("could not start a bare process")?;
        runs.bare.push(began.elapsed());
        ensure!(status.success(), "{} failed", spawns::PROGRAM);

        let run_handle = warden.new_run();
        let began = Instant::now();
        let outcome = warden.run(&run_handle, &spec)?;
        runs.cell.push(began.elapsed());
        ensure!(
            outcome.exit_code == Some(0),
            "{} failed in a cell: {outcome:?}",
            spawns::PROGRAM
        );
        let began = Instant::now();
        warden.reset_for_next_task()?;
        warden.wait_until_ready()?;
        runs.ready.push(began.elapsed());

        let began = Instant::now();
        let status = Command::new(bwrap)
            .args(["--unshare-all", "--ro-bind", "/", "/", spawns::PROGRAM])
            .status()
            .with_context(|| {
                format!("could not start {bwrap}; install bubblewrap, or give its path with --bwrap")
            })?;
        runs.bwrap.push(began.elapsed());
        ensure!(status.success(), "{bwrap} failed");
    }
    Ok(runs)
}

fn measure_burn(warden: &mut Warden) -> Result<BurnComparison> {
    let folder = warden.task_folder().context("the warden has no task folder")?;
    let program = folder.join("box/burn");
    fs::copy("/proc/self/exe", &program).context("could not copy a program into the cell")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut burn = burn_once(warden)?;
    for _ in 1..BURN_REPEATS {
        burn = burn.merge(burn_once(warden)?);
    }
    Ok(burn)
}

fn burn_once(warden: &mut Warden) -> Result<BurnComparison> {
    let arguments = [burn::SUBCOMMAND, BURN_ROUNDS];
    let began = Instant::now();
    let output = Command::new("/proc/self/exe").args(arguments).output()?;
    let outside = began.elapsed();
    ensure!(
        output.status.success(),
        "the CPU-bound program failed outside of a cell"
    );
    let run_handle = warden.new_run();
    let outcome = warden.run(
        &run_handle,
        &command_spec(&[&["./burn"], &arguments[..]].concat()),
    )?;
    let printed = String::from_utf8_lossy(&outcome.stdout.head).trim().to_string();
    let own_cpu_seconds = printed.parse().with_context(|| {
        format!("the CPU-bound program printed '{printed}' in a cell instead of its CPU time: {outcome:?}")
    })?;
    Ok(BurnComparison {
        outside,
        inside: outcome.wall,
        own_cpu_seconds,
        measured_cpu: outcome.cpu,
    })
}

/// A command with the limits that users usually set, so that their enforcement is part of the cost.
pub(crate) fn command_spec(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(Into::into).collect(),
        env: Vec::new(),
        directory: WORKSPACE.into(),
        input: CommandInput::Bytes(Vec::new()),
        limits: CommandLimits {
            wall: Some(Duration::from_secs(60)),
            cpu: Some(Duration::from_secs(30)),
            memory: Some(256 << 20),
            processes: Some(64),
            ..CommandLimits::default()
        },
        max_captured_bytes: 1 << 20,
        network: None,
    }
}

/// Bytes of memory that only this process uses.
fn private_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let kib: u64 = lines
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    Ok(kib << 10)
}

impl Figures for CellFigures {
    fn table(&self) -> FigureTable {
        let mut table = FigureTable::of_figures();
        for (what, seconds) in [
            ("bare spawn, p50", self.spawn_p50_seconds),
            ("one run in a ready cell, p50", self.run_p50_seconds),
            ("making the next one ready, p50", self.ready_p50_seconds),
            ("one run by bwrap, p50", self.bwrap_p50_seconds),
        ] {
            table.add_figure(what, millis(seconds));
        }
        table.add_figure("tasks without cells", rate(self.none.per_second));
        table.add_figure("tasks in cells", rate(self.cell.per_second));
        table.add_figure("the same with a language", rate(self.language.per_second));
        table.add_figure("the same in a named root", rate(self.root.per_second));
        table.add_figure(
            "a warden's own memory, with its cell",
            kibibytes(self.warden_bytes),
        );
        for (what, seconds) in [
            ("a busy program outside", self.outside_seconds),
            ("the same in a cell", self.inside_seconds),
            ("  its CPU time, as it says", self.own_cpu_seconds),
            ("  its CPU time, as measured", self.measured_cpu_seconds),
        ] {
            table.add_figure(what, millis(seconds));
        }
        table
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        let over_spawn = self.run_p50_seconds - self.spawn_p50_seconds;
        let over_bwrap = self.bwrap_p50_seconds / self.run_p50_seconds;
        let over_none = self.cell.per_second / self.none.per_second;
        let with_language = self.language.per_second / self.cell.per_second;
        // Of one slot: the slots run at the same time.
        let run_seconds = |tasks: &TaskThroughput| f64::from(self.slots) / tasks.per_second;
        let over_default_root = run_seconds(&self.root) - run_seconds(&self.cell);
        let slower = self.inside_seconds / self.outside_seconds;
        let cpu_error = (self.measured_cpu_seconds - self.own_cpu_seconds).abs();
        vec![
            ReleaseTarget::new(
                "one run in a ready cell over a bare spawn, p50",
                format!("<= {:.2} ms", MAX_SECONDS_OVER_SPAWN * 1e3),
                format!("{:.2} ms", over_spawn * 1e3),
                over_spawn <= MAX_SECONDS_OVER_SPAWN,
            ),
            ReleaseTarget::new(
                "bwrap over one run in a ready cell, p50",
                format!(">= {MIN_SPEEDUP_OVER_BWRAP}"),
                format!("{over_bwrap:.2}"),
                over_bwrap >= MIN_SPEEDUP_OVER_BWRAP,
            ),
            ReleaseTarget::new(
                "tasks in cells over tasks without",
                format!(">= {MIN_RATIO_TO_NO_CELLS}"),
                format!("{over_none:.2}"),
                over_none >= MIN_RATIO_TO_NO_CELLS,
            ),
            ReleaseTarget::new(
                "tasks in cells with a language over those without",
                format!(">= {MIN_RATIO_OF_LANGUAGE}"),
                format!("{with_language:.2}"),
                with_language >= MIN_RATIO_OF_LANGUAGE,
            ),
            ReleaseTarget::new(
                "a run in a named root over one in the default root",
                format!("<= {:.1} ms", MAX_SECONDS_OF_ROOT * 1e3),
                format!("{:.3} ms", over_default_root * 1e3),
                over_default_root <= MAX_SECONDS_OF_ROOT,
            ),
            ReleaseTarget::new(
                "memory of a warden with its ready cell",
                format!("<= {} MiB", MAX_WARDEN_BYTES >> 20),
                format!("{:.1} MiB", self.warden_bytes as f64 / f64::from(1 << 20)),
                self.warden_bytes <= MAX_WARDEN_BYTES,
            ),
            ReleaseTarget::new(
                "a busy program in a cell over outside",
                format!("<= {MAX_SLOWDOWN}"),
                format!("{slower:.2}"),
                slower <= MAX_SLOWDOWN,
            ),
            ReleaseTarget::new(
                "measured CPU time off by",
                format!(
                    "<= {:.0} % or {:.0} ms",
                    MAX_CPU_ERROR_SHARE * 100.0,
                    MAX_CPU_ERROR_SECONDS * 1e3
                ),
                format!("{:.2} ms", cpu_error * 1e3),
                cpu_error <= MAX_CPU_ERROR_SECONDS.max(self.own_cpu_seconds * MAX_CPU_ERROR_SHARE),
            ),
        ]
    }
}
