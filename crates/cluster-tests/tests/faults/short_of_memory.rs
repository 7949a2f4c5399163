//! A machine that has less memory left than it keeps in reserve.

use cluster_tests::{await_that, shell};
use model::Status;
use serde_json::json;

use crate::stage::{LONG_LEASE, SOON, Stage};

/// Bytes that the machine has left.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib: u64 = line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

fn flags(reserve: u64) -> Vec<String> {
    let mut flags: Vec<_> = LONG_LEASE.map(str::to_string).into();
    for setting in [
        format!("executor.reserve={reserve}"),
        "executor.slot_memory=64GiB".to_string(),
    ] {
        flags.extend(["--set".to_string(), setting]);
    }
    flags
}

#[tokio::test]
async fn an_executor_short_of_memory_takes_nothing_and_says_so() {
    let stage = Stage::new();
    let flags = flags(1 << 50);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let up = stage.system.up(&flags).unwrap();
    await_that("the log says so", SOON, async || {
        up.log().contains("the machine is short of memory").then_some(())
    })
    .await;
    // Once a report was answered that came after it, the executor has offered no slot.
    let task = stage.system.add(shell("true")).await;
    let reported = async || stage.system.client.executors().await.unwrap()[0].report_time;
    let before = reported().await;
    await_that("it goes on reporting", SOON, async || {
        (reported().await > before).then_some(())
    })
    .await;
    let task = stage.look(task.id).await;
    assert_eq!((task.status, task.attempt), (Status::Pending, 0));
}

#[tokio::test]
async fn the_newest_task_is_ended_as_lost_by_the_platform() {
    let stage = Stage::new();
    let available = available();
    let headroom = (available / 8).min(1 << 30);
    let flags = flags(available - headroom);
    let flags: Vec<_> = [
        &["--slots", "2"][..],
        &flags.iter().map(String::as_str).collect::<Vec<_>>(),
    ]
    .concat();
    let _up = stage.system.up(&flags).unwrap();
    let old = stage.add_waiting().await;
    stage.runs(old, 1).await;
    // Much more than the headroom: other processes may give memory back meanwhile.
    let hog = json!({"execute": {
        "command": format!("exec python3 -c 'import time; held = b\"x\" * {}; time.sleep(1000)'", headroom * 6),
        "limits": {"memory": headroom * 8, "wall": "1h"},
    }});
    let hog = stage.system.add(hog).await.id;
    let lost = await_that("it is ended", SOON, async || {
        let task = stage.look(hog).await;
        task.trouble.is_some().then_some(task)
    })
    .await;
    let trouble = lost.trouble.unwrap_or_default();
    assert!(trouble.contains("short of memory"), "{trouble}");
    assert!(!lost.done, "no verdict against its user: {:?}", lost.status);
    stage.system.client.cancel(hog).await.unwrap();
    let (task, _) = stage.finish(old).await;
    assert_eq!(task.status, Status::Success);
}
