//! A task with many trivial cases, against the same runs in the sandbox without a server.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{HttpClient, NewTask};
use model::TaskStatus;
use sandbox::{SandboxOptions, WardenLauncher};
use serde::Serialize;
use serde_json::{Value, json};

use crate::percentile::percentile;
use crate::up_process::UpProcess;
use crate::{BenchSizes, cells, progress, spawns};

/// A figure of the benchmark: how long a task with many trivial cases takes, and what the same runs take in the sandbox.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CaseTimes {
    pub(crate) cases: usize,
    /// A task with a single case, from its add to its end.
    pub(crate) first_seconds: f64,
    /// A task with all cases.
    pub(crate) all_seconds: f64,
    /// As many runs in a cell, each after the cell was made ready again.
    pub(crate) sandbox_seconds: f64,
}

impl CaseTimes {
    /// What one more case costs.
    pub(crate) fn one_case_seconds(&self) -> f64 {
        (self.all_seconds - self.first_seconds) / (self.cases - 1) as f64
    }
}

const MAX_WAIT: Duration = Duration::from_secs(60);
const ROUNDS: usize = 5;

/// Alternates between the ways to run the program, so that other load slows all of them equally. The server has one slot, so
/// that the cases run one after the other, as in the sandbox.
pub(crate) async fn measure(sizes: &BenchSizes, sandbox: &SandboxOptions, data: &Path) -> Result<CaseTimes> {
    let cases = sizes.judged_cases;
    progress(format_args!("measuring tasks with {cases} trivial cases"));
    let server = UpProcess::start_with_isolation(data, "1", "cell").await?;
    let (one, all) = (task_with_cases(1)?, task_with_cases(cases)?);
    // The first task waits until the wardens have started.
    run(&server.client, &one).await?;
    let (mut first, mut every, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        first.push(run(&server.client, &one).await?);
        every.push(run(&server.client, &all).await?);
        alone.push(run_in_sandbox(sandbox, cases)?);
    }
    server.stop().await?;
    let p50 = |mut durations: Vec<Duration>| percentile(&mut durations, 50).as_secs_f64();
    Ok(CaseTimes {
        cases,
        first_seconds: p50(first),
        all_seconds: p50(every),
        sandbox_seconds: p50(alone),
    })
}

/// A task with trivial cases, of which every output is accepted.
fn task_with_cases(cases: usize) -> Result<NewTask> {
    let cases: Value = (0..cases).map(|case| json!({"name": case.to_string()})).collect();
    let task = json!({
        "execute": {"command": [spawns::PROGRAM], "limits": {"cpu": "30s", "memory": "256MiB", "processes": 64}},
        "cases": cases,
        "check": {"kind": "none"},
    });
    Ok(serde_json::from_value(task)?)
}

async fn run(client: &HttpClient, task: &NewTask) -> Result<Duration> {
    let began = Instant::now();
    let mut done = client.add(task, Some(MAX_WAIT)).await?;
    while !done.done {
        done = client.get(done.id, Some(MAX_WAIT)).await?;
    }
    let took = began.elapsed();
    ensure!(
        done.status == TaskStatus::Success,
        "the task with trivial cases ended as {}",
        done.status
    );
    Ok(took)
}

fn run_in_sandbox(sandbox: &SandboxOptions, runs: usize) -> Result<Duration> {
    let prepared_sandbox = sandbox.prepare_temporary()?;
    let mut warden = WardenLauncher::this_binary(prepared_sandbox.isolation.clone())
        .start()
        .map_err(sandbox::EnforcementError::from)?;
    let spec = cells::command_spec(&[spawns::PROGRAM]);
    warden.wait_until_ready().context("the first cell is not ready")?;
    let began = Instant::now();
    for _ in 0..runs {
        let run_handle = warden.new_run();
        let outcome = warden.run(&run_handle, &spec)?;
        ensure!(
            outcome.exit_code == Some(0),
            "{} failed in a cell: {outcome:?}",
            spawns::PROGRAM
        );
        warden.reset_for_next_task()?;
        warden.wait_until_ready()?;
    }
    let took = began.elapsed();
    drop(warden);
    prepared_sandbox.remove()?;
    Ok(took)
}
