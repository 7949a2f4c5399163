//! What following the output of a task costs, and how soon a follower sees what the program writes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{HttpClient, NewTask};
use futures::future::try_join_all;
use model::TaskId;
use serde::Serialize;
use tokio::io::AsyncBufReadExt;

use crate::percentile::percentile;
use crate::raw_http;
use crate::task_program::{TaskProgram, monotonic_nanos};
use crate::up_process::UpProcess;

/// A figure of the benchmark: the time from a `write` in a program until a follower has read it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct FollowLatency {
    pub(crate) lines: usize,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// A figure of the benchmark: what many followers cost the server and the task that they follow.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct FollowerCost {
    pub(crate) followers: usize,
    pub(crate) memory_bytes: u64,
    /// CPU time of the task with followers over that without: what it loses itself.
    pub(crate) task_cpu_ratio: f64,
    /// The same for its wall time. The followers are processes of this machine, too, and need CPU time themselves.
    pub(crate) task_wall_ratio: f64,
}

const MAX_WAIT: Duration = Duration::from_secs(60);
const ROUNDS: usize = 5;
const LINES: usize = 2000;

pub(crate) async fn measure_latency(server: &UpProcess, lines: usize) -> Result<FollowLatency> {
    let program = TaskProgram::Clock { count: lines };
    let task = server.client.add(&NewTask::new(program.command()?), None).await?;
    let follower = raw_http::get(&server.http_address, &follow_path(task.id)).await?;
    let mut times = follower.lines();
    let mut latencies = Vec::with_capacity(lines);
    while let Some(line) = times.next_line().await? {
        let written: u64 = line
            .parse()
            .context("the task wrote something else than a time")?;
        latencies.push(Duration::from_nanos(monotonic_nanos()?.saturating_sub(written)));
    }
    ensure!(
        latencies.len() == lines,
        "{} of {lines} lines arrived",
        latencies.len()
    );
    Ok(FollowLatency {
        lines,
        p50_seconds: percentile(&mut latencies, 50).as_secs_f64(),
        p99_seconds: percentile(&mut latencies, 99).as_secs_f64(),
    })
}

pub(crate) async fn measure_followers(server: &UpProcess, followers: usize) -> Result<FollowerCost> {
    let (mut alone, mut followed) = (Vec::new(), Vec::new());
    // Warms the caches, so that the memory of the followers alone is measured.
    run_followed(server, 1).await?;
    let before = server.resident_bytes()?;
    let mut most = before;
    for _ in 0..ROUNDS {
        alone.push(run_followed(server, 0).await?.times);
        let run = run_followed(server, followers).await?;
        followed.push(run.times);
        most = most.max(run.resident_bytes);
    }
    let median = |runs: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| {
        let mut times: Vec<_> = runs
            .iter()
            .map(|run| Duration::from_secs_f64(pick(run)))
            .collect();
        percentile(&mut times, 50).as_secs_f64()
    };
    Ok(FollowerCost {
        followers,
        memory_bytes: most.saturating_sub(before),
        task_cpu_ratio: median(&followed, |run| run.0) / median(&alone, |run| run.0),
        task_wall_ratio: median(&followed, |run| run.1) / median(&alone, |run| run.1),
    })
}

/// A task of the benchmark that ran while it was followed.
struct FollowedRun {
    /// CPU and wall time of its execute step.
    times: (f64, f64),
    /// Memory of the server while the followers were connected.
    resident_bytes: u64,
}

async fn run_followed(server: &UpProcess, followers: usize) -> Result<FollowedRun> {
    let program = TaskProgram::Lines { count: LINES };
    let task = server.client.add(&NewTask::new(program.command()?), None).await?;
    let path = follow_path(task.id);
    let all = (0..followers).map(|_| raw_http::get_length(&server.http_address, &path));
    let watch = async {
        let mut most = 0;
        while !server
            .client
            .get(task.id, Some(Duration::from_millis(100)))
            .await?
            .done
        {
            most = most.max(server.resident_bytes()?);
        }
        anyhow::Ok(most)
    };
    let (lengths, resident_bytes) = tokio::try_join!(try_join_all(all), watch)?;
    let expected = LINES as u64 * 100;
    ensure!(
        lengths.iter().all(|length| *length == expected),
        "a follower did not get all {expected} bytes"
    );
    Ok(FollowedRun {
        times: step_times(&server.client, task.id).await?,
        resident_bytes,
    })
}

async fn step_times(client: &HttpClient, id: TaskId) -> Result<(f64, f64)> {
    let task = client.get(id, Some(MAX_WAIT)).await?;
    let outcome = task.result.and_then(|result| result.execute);
    let outcome = outcome.with_context(|| format!("task {id} ended as {}", task.status))?;
    Ok((outcome.cpu_seconds, outcome.wall_seconds))
}

fn follow_path(id: TaskId) -> String {
    format!("/api/v1/tasks/{id}/execute/stdout?follow=true")
}
