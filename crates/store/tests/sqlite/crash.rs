//! What was acknowledged survives the death of the process.

#![allow(
    clippy::print_stdout,
    reason = "the process to be killed says what it has done"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use model::{Query, Status, TaskId};
use store::TaskStore;
use store::contract::sample::{add_one, get, marked};
use store::contract::worker::Worker;

use super::open;

/// Tells a process started by this test that it is the one to be killed, and where.
const VICTIM: &str = "STORE_CRASH_FOLDER";
const ROUNDS: usize = 3;
const LINES: usize = 300;

/// The test starts itself, as a process that adds and finishes tasks and says so, kills it in the middle of
/// that, and looks for everything it said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_work_survives_a_kill() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        work_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut added, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..ROUNDS {
        for line in kill_after(LINES, start(folder.path())) {
            match line.split_once(' ') {
                Some(("added", id)) => assert!(added.insert(id.parse::<TaskId>().unwrap())),
                Some(("finished", id)) => assert!(finished.insert(id.parse::<TaskId>().unwrap())),
                // The test harness has its own to say.
                _ => {}
            }
        }
        let store = open(folder.path());
        for id in &added {
            assert!(store.get(*id).await.unwrap().is_some(), "{id} was lost");
        }
        for id in &finished {
            let task = get(&*store, *id).await;
            assert_eq!(
                (task.status, task.result),
                (Status::Success, Some(marked(task.attempt, "crash")))
            );
        }
        check_totals(&*store).await;
    }
    assert!(
        added.len() > ROUNDS && finished.len() > ROUNDS,
        "{} {}",
        added.len(),
        finished.len()
    );
}

async fn work_until_killed(folder: &Path) -> ! {
    let store = open(folder);
    for _ in 0..4 {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let id = add_one(&*store).await;
                println!("added {id}");
            }
        });
    }
    let store: std::sync::Arc<dyn TaskStore> = store;
    let mut worker = Worker::new(&store, &format!("e{}", std::process::id()));
    loop {
        for assigned in worker.claim(4).await {
            let handout = assigned.handout;
            worker.finish(handout, marked(handout.attempt, "crash")).await;
            println!("finished {}", handout.task);
        }
    }
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "crash::acknowledged_work_survives_a_kill",
            "--nocapture",
        ])
        .env(VICTIM, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// All complete lines that the process got out, which are at least this many.
fn kill_after(count: usize, mut child: Child) -> Vec<String> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = vec![];
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
            break;
        }
        lines.push(line.trim_end().to_string());
        if lines.len() == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(lines.len() >= count, "it ended by itself: {lines:?}");
    lines
}

/// The sums are in the same transactions as what they sum up.
async fn check_totals(store: &dyn TaskStore) {
    let totals = store.totals().await.unwrap();
    for status in Status::ALL {
        let mut query = Query {
            statuses: vec![status],
            limit: 1000,
            ..Query::default()
        };
        let mut count = 0;
        loop {
            let page = store.search(query.clone()).await.unwrap();
            count += page.tasks.len() as u64;
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(totals.counts[&status], count, "{status}");
    }
}
