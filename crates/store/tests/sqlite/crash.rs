//! Acknowledged operations survive a kill of the process.

#![allow(
    clippy::print_stdout,
    reason = "the child process prints what the store has acknowledged"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use model::{TaskId, TaskQuery, TaskStatus};
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, attempt_result, get_task};

use super::open;

/// Set in the environment of the child process that the test kills: the folder of the store.
const CHILD_FOLDER: &str = "STORE_CRASH_FOLDER";
const ROUNDS: usize = 3;
/// How many lines the child prints before it is killed.
const LINES: usize = 300;

/// The test starts itself as a child process, which adds and finishes tasks and prints each after its
/// acknowledgement. The test kills the child and checks that the store has everything that the child printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_work_survives_a_kill() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        work_until_killed(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut added, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..ROUNDS {
        for line in kill_after(LINES, start(folder.path())) {
            match line.split_once(' ') {
                Some(("added", id)) => assert!(added.insert(id.parse::<TaskId>().unwrap())),
                Some(("finished", id)) => assert!(finished.insert(id.parse::<TaskId>().unwrap())),
                // The test harness prints other lines.
                _ => {}
            }
        }
        let store = open(folder.path());
        for id in &added {
            assert!(store.get(*id).await.unwrap().is_some(), "{id} was lost");
        }
        for id in &finished {
            let task = get_task(&*store, *id).await;
            assert_eq!(
                (task.status, task.result),
                (TaskStatus::Success, Some(attempt_result(task.attempt, "crash")))
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
                let id = add_task(&*store).await;
                println!("added {id}");
            }
        });
    }
    let store: std::sync::Arc<dyn TaskStore> = store;
    let mut executor = FakeExecutor::new(&store, &format!("e{}", std::process::id()));
    loop {
        for assigned in executor.claim(4).await {
            let attempt_id = assigned.attempt_id;
            executor
                .finish(attempt_id, attempt_result(attempt_id.attempt, "crash"))
                .await;
            println!("finished {}", attempt_id.task);
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
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills the child after `count` lines and returns all complete lines that it printed.
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
    assert!(lines.len() >= count, "the child ended by itself: {lines:?}");
    lines
}

/// The counters are written in the same transactions as the tasks, so they match after a crash.
async fn check_totals(store: &dyn TaskStore) {
    let totals = store.totals().await.unwrap();
    for status in TaskStatus::ALL {
        let mut query = TaskQuery {
            statuses: vec![status],
            limit: 1000,
            ..TaskQuery::default()
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
