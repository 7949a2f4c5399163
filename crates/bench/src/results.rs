//! What tasks give back: kept files, large outputs, live output, and groups.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::NewTask;
use futures::{StreamExt, TryStreamExt};
use model::GroupName;
use serde::Serialize;

use crate::kept_files::{self, KeptFilesRate};
use crate::live_output::{self, FollowLatency, FollowerCost};
use crate::percentile::percentile;
use crate::report::{FigureTable, Figures, ReleaseTarget, mebibytes, millis};
use crate::task_program::TaskProgram;
use crate::up_process::UpProcess;
use crate::{BenchSizes, progress, raw_http, trivial_task};

/// What `conclave bench --results` measures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ResultFigures {
    pub(crate) kept_files: KeptFilesRate,
    pub(crate) large_output: LargeOutput,
    pub(crate) follow_latency: FollowLatency,
    pub(crate) followers: FollowerCost,
    pub(crate) group: GroupReads,
}

/// A figure of the benchmark: the largest memory of a server with a task that writes much.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LargeOutput {
    pub(crate) output_bytes: u64,
    pub(crate) peak_resident_bytes: u64,
    pub(crate) seconds: f64,
}

/// A figure of the benchmark: how long it takes to read the state of a large group while its tasks finish.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct GroupReads {
    pub(crate) tasks: usize,
    pub(crate) reads: usize,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
    /// Tasks that finished meanwhile.
    pub(crate) finished: u64,
}

const MIN_KEPT_FILES_RATIO: f64 = 0.5;
const MAX_RESIDENT_MIB: u64 = 200;
const MAX_FOLLOWERS_MIB: u64 = 100;
const MAX_FOLLOWED_RATIO: f64 = 1.05;
const MAX_FOLLOW_SECONDS: f64 = 0.05;
const MAX_GROUP_READ_SECONDS: f64 = 0.05;
const MAX_WAIT: Duration = Duration::from_secs(60);
const BATCH_SIZE: usize = 1000;
const CONCURRENT_BATCHES: usize = 3;
const GROUP: &str = "bench";

pub(crate) async fn measure(sizes: &BenchSizes, folder: &Path) -> Result<ResultFigures> {
    let server = UpProcess::start(&folder.join("files"), "auto").await?;
    progress(format_args!(
        "measuring {} tasks that keep files",
        sizes.keeping_tasks
    ));
    let kept_files = kept_files::measure(&server.client, sizes.keeping_tasks, folder).await?;
    progress("measuring how soon a follower sees output");
    let follow_latency = live_output::measure_latency(&server, sizes.latency_rounds).await?;
    server.stop().await?;
    let server = UpProcess::start(&folder.join("followers"), "auto").await?;
    progress(format_args!("measuring {} followers", sizes.followers));
    let followers = live_output::measure_followers(&server, sizes.followers).await?;
    server.stop().await?;
    progress("measuring a task with large output");
    let large_output = measure_large_output(sizes.large_output, &folder.join("output")).await?;
    let group = measure_group(sizes.group_tasks, sizes.latency_rounds, &folder.join("group")).await?;
    Ok(ResultFigures {
        kept_files,
        large_output,
        follow_latency,
        followers,
        group,
    })
}

async fn measure_large_output(bytes: u64, data: &Path) -> Result<LargeOutput> {
    let keep = format!("executor.keep_output={bytes}");
    let server =
        UpProcess::start_with(data, &["--slots", "auto", "--isolation", "none", "--set", &keep]).await?;
    let began = Instant::now();
    let program = TaskProgram::Flood { bytes };
    let id = server
        .client
        .add(&NewTask::new(program.command()?), None)
        .await?
        .id;
    let task = loop {
        let task = server.client.get(id, Some(MAX_WAIT)).await?;
        if task.done {
            break task;
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let outcome = task.result.and_then(|result| result.execute);
    let kept = outcome
        .context("the task with large output has no outcome")?
        .stdout_bytes;
    ensure!(kept == bytes, "{kept} of {bytes} bytes of output were kept");
    let peak_resident_bytes = server.peak_resident_bytes()?;
    server.stop().await?;
    Ok(LargeOutput {
        output_bytes: bytes,
        peak_resident_bytes,
        seconds,
    })
}

async fn measure_group(tasks: usize, reads: usize, data: &Path) -> Result<GroupReads> {
    progress(format_args!("queueing a group of {tasks} tasks"));
    let server = UpProcess::start(data, "0").await?;
    let task = NewTask {
        group: Some(GroupName::new(GROUP)?),
        ..trivial_task()
    };
    let batches = (0..tasks)
        .step_by(BATCH_SIZE)
        .map(|begin| BATCH_SIZE.min(tasks - begin));
    futures::stream::iter(batches)
        .map(|size| {
            let batch = vec![task.clone(); size];
            async { server.client.add_many(batch).await.map(drop) }
        })
        .buffer_unordered(CONCURRENT_BATCHES)
        .try_collect::<()>()
        .await?;
    server.stop().await?;
    progress("measuring reads of the group while its tasks finish");
    let server = UpProcess::start(data, "auto").await?;
    let path = format!("/api/v1/groups/{GROUP}");
    let before = server.client.stats().await?;
    let mut durations = Vec::with_capacity(reads);
    while durations.len() < reads {
        let began = Instant::now();
        raw_http::get_length(&server.http_address, &path).await?;
        durations.push(began.elapsed());
    }
    let after = server.client.stats().await?;
    let done = |stats: &api::Stats| stats.counts.get("success").copied().unwrap_or(0);
    let finished = done(&after) - done(&before);
    server.stop().await?;
    Ok(GroupReads {
        tasks,
        reads,
        p50_seconds: percentile(&mut durations, 50).as_secs_f64(),
        p99_seconds: percentile(&mut durations, 99).as_secs_f64(),
        finished,
    })
}

impl Figures for ResultFigures {
    fn table(&self) -> FigureTable {
        let mut table = FigureTable::of_figures();
        let files = &self.kept_files;
        table.add_figure(
            format!(
                "{} tasks that keep {} files of {} bytes",
                files.tasks, files.files_of_each, files.bytes_of_each
            ),
            (format!("{:.1}", files.seconds), "s"),
        );
        table.add_figure(
            "  the same bytes",
            (format!("{:.0}", files.mebibytes_per_second()), "MiB/s"),
        );
        table.add_figure(
            "  written and hashed by 2 threads",
            (format!("{:.1}", files.local_seconds), "s"),
        );
        table.add_figure(
            "  and synced",
            (format!("{:.1}", files.local_synced_seconds), "s"),
        );
        table.add_figure("  over 2 threads", (format!("{:.2}", files.ratio()), ""));
        table.add_figure(
            "  over 2 threads that sync",
            (format!("{:.2}", files.synced_ratio()), ""),
        );
        table.add_figure("write to follower, p50", millis(self.follow_latency.p50_seconds));
        table.add_figure("write to follower, p99", millis(self.follow_latency.p99_seconds));
        let followers = &self.followers;
        table.add_figure(
            format!("memory for {} followers", followers.followers),
            mebibytes(followers.memory_bytes),
        );
        table.add_figure(
            "  CPU time of the task over without",
            (format!("{:.2}", followers.task_cpu_ratio), ""),
        );
        table.add_figure(
            "  wall time of the task over without",
            (format!("{:.2}", followers.task_wall_ratio), ""),
        );
        let output = &self.large_output;
        table.add_figure(
            format!("peak memory with {} MiB of output", output.output_bytes >> 20),
            mebibytes(output.peak_resident_bytes),
        );
        let group = &self.group;
        table.add_figure(
            format!("read a group of {}, p50", group.tasks),
            millis(group.p50_seconds),
        );
        table.add_figure(
            format!("read a group of {}, p99", group.tasks),
            millis(group.p99_seconds),
        );
        table.add_figure("  tasks finished meanwhile", (group.finished.to_string(), ""));
        table
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        // A server syncs each blob before it answers, and the tasks make their files on the same cores.
        let files = self.kept_files.synced_ratio();
        let memory = self.large_output.peak_resident_bytes >> 20;
        let followers = self.followers.memory_bytes >> 20;
        let wall = self.followers.task_wall_ratio;
        let latency = self.follow_latency.p99_seconds;
        let group = self.group.p99_seconds;
        vec![
            ReleaseTarget::new(
                "kept files over 2 threads that write, hash and sync",
                format!(">= {MIN_KEPT_FILES_RATIO}"),
                format!("{files:.2}"),
                files >= MIN_KEPT_FILES_RATIO,
            ),
            ReleaseTarget::new(
                "peak memory with large output",
                format!("< {MAX_RESIDENT_MIB} MiB"),
                format!("{memory} MiB"),
                memory < MAX_RESIDENT_MIB,
            ),
            ReleaseTarget::new(
                "memory of followers",
                format!("< {MAX_FOLLOWERS_MIB} MiB"),
                format!("{followers} MiB"),
                followers < MAX_FOLLOWERS_MIB,
            ),
            ReleaseTarget::new(
                "run time of a followed task over one that is not",
                format!("<= {MAX_FOLLOWED_RATIO}"),
                format!("{wall:.2}"),
                wall <= MAX_FOLLOWED_RATIO,
            ),
            ReleaseTarget::new(
                "write to follower, p99",
                format!("< {} ms", MAX_FOLLOW_SECONDS * 1e3),
                format!("{:.2} ms", latency * 1e3),
                latency < MAX_FOLLOW_SECONDS,
            ),
            ReleaseTarget::new(
                "read a large group, p99",
                format!("< {} ms", MAX_GROUP_READ_SECONDS * 1e3),
                format!("{:.2} ms", group * 1e3),
                group < MAX_GROUP_READ_SECONDS,
            ),
        ]
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.kept_files.ratio())
    }
}
