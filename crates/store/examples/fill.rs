//! Benchmark: fills a SQLite store and prints the cost of adding in batches, of claiming from a growing queue, of
//! searching, and of opening the store again.
//!
//!     cargo run --release -p store --example fill -- 1000000 /var/tmp/fill
//!
//! The folder must not contain a store. The benchmark keeps it for inspection.

#![allow(clippy::print_stdout, reason = "the benchmark prints its results")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use model::{
    AttemptId, Content, ExecutingAttempt, ExecutorInfo, ExecutorName, Report, ReportAnswer, ReportIntent,
    ReportSeq, SessionId, SortOrder, StepCommand, TaskForm, TaskId, TaskQuery, TaskSpec, TaskStatus,
    UserName,
};
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use store::{NewTaskRecord, TaskStore};

const BATCH: usize = 1000;
/// Batches in flight, so that one is encoded while another is written.
const CONCURRENT_BATCHES: usize = 2;
const CLAIMS: usize = 40;
const SEARCHERS: usize = 8;
const LISTS: usize = 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let count: usize = args.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let folder = args.next().map_or_else(|| PathBuf::from("fill"), PathBuf::from);
    ensure!(
        !folder.join("tasks.db").exists(),
        "{} contains a store already",
        folder.display()
    );
    let mut store = SqliteStore::open(&folder, SqliteStoreOptions::default())?;
    let mut filled = 0;
    for stage in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let stage = stage.min(count);
        if stage == filled {
            break;
        }
        let rate = fill(&store, stage - filled).await?;
        filled = stage;
        println!("{filled:>9} queued: {rate:>7.0} adds/s in batches of {BATCH}");
        measure_claims(&store).await?;
        measure_searches(&store).await?;
        measure_lists_during_text_searches(&store).await?;
        println!(
            "          rss {} MiB, {}",
            resident_bytes()? >> 20,
            file_sizes(&folder)
        );
        drop(store);
        let began = Instant::now();
        store = SqliteStore::open(&folder, SqliteStoreOptions::default())?;
        store.totals().await?;
        println!(
            "          opened again in {:.2?}, rss {} MiB",
            began.elapsed(),
            resident_bytes()? >> 20
        );
    }
    Ok(())
}

/// Adds `count` tasks and returns the rate.
async fn fill(store: &SqliteStore, count: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    let sizes = (0..count).step_by(BATCH).map(|from| BATCH.min(count - from));
    let adds = stream::iter(sizes).map(|size| store.add((0..size).map(task).collect()));
    let mut adds = adds.buffered(CONCURRENT_BATCHES);
    let mut slowest = Duration::ZERO;
    let mut last = Instant::now();
    while let Some(added) = adds.next().await {
        added?;
        slowest = slowest.max(last.elapsed());
        last = Instant::now();
    }
    println!("          longest wait between two batches {slowest:.2?}");
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

fn task(index: usize) -> NewTaskRecord {
    let user = UserName::new(format!("user-{}", index % 50)).expect("a good name");
    let command = StepCommand::Shell(format!("./simulate --case {index}"));
    let mut spec = TaskSpec::new(user, command);
    spec.priority = (index % 3) as i32;
    spec.execute.args = vec!["--fast".into()];
    spec.execute.env = [("LANG".to_string(), "C".to_string())].into();
    spec.execute.input = Content::Inline(Bytes::from_static(&[b'x'; 200]));
    spec.execute.limits.wall = Some(Duration::from_secs(10));
    NewTaskRecord {
        id: TaskId(uuid::Uuid::now_v7()),
        digest: [1; 32],
        legacy_digest: None,
        spec,
    }
}

/// Measures claims and reports without changes, then releases all tasks.
async fn measure_claims(store: &SqliteStore) -> anyhow::Result<()> {
    let mut report = Report {
        executor: ExecutorName::new("probe")?,
        session: SessionId(uuid::Uuid::now_v7()),
        seq: ReportSeq(0),
        acked: ReportSeq(0),
        succeeds: None,
        complete: vec![],
        executing: vec![],
        vacant: 8,
        executor_info: ExecutorInfo {
            slots: 8,
            host: "here".into(),
            version: "0".into(),
            self_kill: std::time::Duration::from_secs(7),
            capacity: None,
            newest_form: TaskForm::NEWEST,
            tools: None,
            load: None,
        },
        intent: ReportIntent::Stay,
    };
    let mut claimed = vec![];
    for _ in 0..CLAIMS {
        claimed.push(send(store, &mut report).await?);
    }
    report.vacant = 0;
    let mut idle = vec![];
    for _ in 0..CLAIMS {
        idle.push(send(store, &mut report).await?);
    }
    report.intent = ReportIntent::Leave;
    send(store, &mut report).await?;
    println!(
        "          claim of 8 {:.2?}, idle report {:.2?} (medians)",
        median(claimed),
        median(idle)
    );
    Ok(())
}

async fn send(store: &SqliteStore, report: &mut Report) -> anyhow::Result<Duration> {
    report.acked = report.seq;
    report.seq = report.seq.next();
    let began = Instant::now();
    let reported = store.report(report.clone()).await?;
    let took = began.elapsed();
    let ReportAnswer::Done(answer) = reported.answer else {
        anyhow::bail!("refused: {:?}", reported.answer)
    };
    ensure!(
        answer.assign.len() == report.vacant as usize,
        "only {} tasks were queued",
        answer.assign.len()
    );
    let handouts = answer.assign.into_iter().map(|assignment| assignment.attempt_id);
    report
        .executing
        .extend(handouts.map(|attempt_id: AttemptId| ExecutingAttempt {
            attempt_id,
            status: None,
        }));
    Ok(took)
}

async fn measure_searches(store: &SqliteStore) -> anyhow::Result<()> {
    let user = Some(UserName::new("user-7")?);
    let queries = [
        ("newest", TaskQuery::default()),
        (
            "user",
            TaskQuery {
                user: user.clone(),
                ..TaskQuery::default()
            },
        ),
        (
            "status",
            TaskQuery {
                statuses: vec![TaskStatus::Retrying],
                order: SortOrder::Oldest,
                ..TaskQuery::default()
            },
        ),
        (
            "user+status",
            TaskQuery {
                user,
                statuses: vec![TaskStatus::Pending, TaskStatus::Success],
                ..TaskQuery::default()
            },
        ),
        (
            "text without a match",
            TaskQuery {
                text: Some("nowhere".into()),
                ..TaskQuery::default()
            },
        ),
    ];
    for (name, query) in queries {
        let began = Instant::now();
        let page = store.search(query).await?;
        println!(
            "          search by {name}: {} in {:.2?}",
            page.tasks.len(),
            began.elapsed()
        );
    }
    Ok(())
}

/// Measures lists while other callers search for a text that no task has.
async fn measure_lists_during_text_searches(store: &SqliteStore) -> anyhow::Result<()> {
    let done = AtomicBool::new(false);
    let searchers = join_all((0..SEARCHERS).map(|_| async {
        let mut pages = 0;
        while !done.load(Ordering::Relaxed) {
            let text = TaskQuery {
                text: Some("nowhere".into()),
                ..TaskQuery::default()
            };
            store.search(text).await?;
            pages += 1;
        }
        anyhow::Ok(pages)
    }));
    let lists = async {
        let mut times = vec![];
        for _ in 0..LISTS {
            let began = Instant::now();
            store.search(TaskQuery::default()).await?;
            times.push(began.elapsed());
        }
        done.store(true, Ordering::Relaxed);
        anyhow::Ok(times)
    };
    let (pages, times) = tokio::join!(searchers, lists);
    let (pages, times) = (pages.into_iter().sum::<anyhow::Result<usize>>()?, times?);
    let slowest = times.iter().max().copied().unwrap_or_default();
    println!(
        "          list during {SEARCHERS} text searches: {:.2?} median, {slowest:.2?} slowest of {LISTS}; \
         {pages} pages of text searches meanwhile",
        median(times)
    );
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

fn file_sizes(folder: &Path) -> String {
    let size = |name: &str| std::fs::metadata(folder.join(name)).map_or(0, |file| file.len() >> 20);
    format!(
        "database {} MiB, WAL {} MiB",
        size("tasks.db"),
        size("tasks.db-wal")
    )
}
