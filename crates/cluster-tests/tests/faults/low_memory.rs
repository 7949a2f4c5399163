//! A machine with less available memory than the executor's reserve.

use cluster_tests::{shell, wait_until};
use model::TaskStatus;
use serde_json::json;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SOON};

/// The available memory of the machine in bytes.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"));
    let kib: u64 = line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

fn flags(reserve: u64) -> Vec<String> {
    let mut flags: Vec<_> = LONG_LEASE_FLAGS.map(str::to_string).into();
    for setting in [
        format!("executor.reserve={reserve}"),
        "executor.slot_memory=64GiB".to_string(),
    ] {
        flags.extend(["--set".to_string(), setting]);
    }
    flags
}

#[tokio::test]
async fn an_executor_below_its_memory_reserve_takes_no_tasks_and_logs_that() {
    let harness = FaultHarness::new();
    let flags = flags(1 << 50);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let up = harness.system.up(&flags).unwrap();
    wait_until("the log line", SOON, async || {
        up.log()
            .contains("available memory is below executor.reserve")
            .then_some(())
    })
    .await;
    // When a later report has been answered, the executor has offered no slot.
    let task = harness.system.add(shell("true")).await;
    let reported = async || harness.system.client.executors().await.unwrap()[0].report_time;
    let before = reported().await;
    wait_until("another report", SOON, async || {
        (reported().await > before).then_some(())
    })
    .await;
    let task = harness.get(task.id).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Pending, 0));
}

#[tokio::test]
async fn the_newest_task_is_ended_as_a_platform_failure() {
    let harness = FaultHarness::new();
    let available = available_memory();
    let headroom = (available / 8).min(1 << 30);
    let flags = flags(available - headroom);
    let flags: Vec<_> = [
        &["--slots", "2"][..],
        &flags.iter().map(String::as_str).collect::<Vec<_>>(),
    ]
    .concat();
    let _up = harness.system.up(&flags).unwrap();
    let old = harness.add_waiting().await;
    harness.wait_for_runs(old, 1).await;
    // Much more than the headroom, because other processes may free memory meanwhile.
    let hog = json!({"execute": {
        "command": format!("exec python3 -c 'import time; held = b\"x\" * {}; time.sleep(1000)'", headroom * 6),
        "limits": {"memory": headroom * 8, "wall": "1h"},
    }});
    let hog = harness.system.add(hog).await.id;
    let lost = wait_until("the task to be ended", SOON, async || {
        let task = harness.get(hog).await;
        task.trouble.is_some().then_some(task)
    })
    .await;
    let trouble = lost.trouble.unwrap_or_default();
    assert!(trouble.contains("short of memory"), "{trouble}");
    assert!(!lost.done, "no verdict against its user: {:?}", lost.status);
    harness.system.client.cancel(hog).await.unwrap();
    let (task, _) = harness.finish(old).await;
    assert_eq!(task.status, TaskStatus::Success);
}
