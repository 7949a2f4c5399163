//! Hanging wardens, disks and processes: their tasks run again, and slots stay usable where possible.

use std::time::{Duration, Instant};

use api::Task;
use cluster_tests::{
    HangingMount, LoopDisk, control_groups_beneath, control_groups_named, shell, wait_until,
};
use model::TaskStatus;
use nix::sys::signal::{Signal, kill};

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, MEDIUM_LEASE, MEDIUM_LEASE_FLAGS, SOON};
use crate::killed_warden::warden_of;

/// Short, but longer than pauses on a busy machine.
const SHORT_STALL: [&str; 2] = ["--set", "executor.stall=6s"];

/// A stopped warden (SIGSTOP) enforces no limits and does not answer, like one that hangs in the kernel.
#[tokio::test]
async fn a_task_whose_warden_hangs_is_run_again_after_its_limit_and_a_margin() {
    let harness = FaultHarness::new();
    let args = [&LONG_LEASE_FLAGS[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let up = harness.system.up(&args).unwrap();
    let mut task = harness.waiting_twice();
    task["execute"]["limits"]["wall"] = "15s".into();
    let id = harness.system.add(task).await.id;
    let first = harness.wait_for_runs(id, 1).await.remove(0);
    kill(warden_of(first.pid), Signal::SIGSTOP).unwrap();
    let hung = Instant::now();
    harness.open("gate");
    let task = harness.system.done(id).await;
    println!("the task was done {:?} after its warden hung", hung.elapsed());
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 2), "{task:?}");
    harness.history.assert_no_overlap();
    let log = up.log();
    assert!(log.contains("did not end the command within"), "{log}");
    // The only slot has another warden.
    assert_eq!(
        harness.system.run(harness.short_task()).await.status,
        TaskStatus::Success
    );
    assert!(!up.log().contains("out of service"));
    harness.system.leftovers().wait_until_clean().await;
}

/// Writes to the executor's disk hang in the kernel.
#[tokio::test]
async fn a_hanging_disk_ends_no_running_task_and_blocks_no_other() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let disk = LoopDisk::mount(&harness.path("e"));
    let args = [&MEDIUM_LEASE_FLAGS[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let _judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &args).unwrap();
    let runs_on = harness.add_waiting().await;
    harness.wait_for_runs(runs_on, 1).await;
    let before = harness.executor("e").await.unwrap();
    disk.freeze();
    let frozen = Instant::now();
    wait_until("reports for longer than a lease", SOON, async || {
        let now = harness.executor("e").await?;
        let long_enough = frozen.elapsed() > MEDIUM_LEASE + Duration::from_secs(2);
        (long_enough && now.report_time > before.report_time && now.health == before.health).then_some(())
    })
    .await;
    // Its result is reported although it cannot be written.
    let (task, runs) = harness.finish(runs_on).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(harness.executor("e").await.unwrap().session, before.session);

    let held = system.add(harness.short_task()).await.id;
    wait_until("the slot to be given up", SOON, async || {
        executor
            .log()
            .contains("out of service until its thread continues")
            .then_some(())
    })
    .await;
    let other = system.executor("other", &args).unwrap();
    let Task { status, attempt, .. } = system.done(held).await;
    assert_eq!((status, attempt), (TaskStatus::Success, 2));
    other.kill();

    disk.thaw();
    wait_until("the slot to be back", SOON, async || {
        executor
            .log()
            .contains("a slot that was out of service works again")
            .then_some(())
    })
    .await;
    assert_eq!(harness.executor("e").await.unwrap().session, before.session);
    let task = system.run(shell("echo $$")).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1), "{task:?}");
    harness.history.assert_no_overlap();
    system.leftovers_at("e").wait_until_clean().await;
}

/// The store cannot commit a report for longer than a lease. No other executor can get the task meanwhile.
#[tokio::test]
async fn tasks_of_a_single_node_continue_while_its_disk_hangs() {
    let harness = FaultHarness::new();
    let disk = LoopDisk::mount(&harness.system.data());
    let up = harness.system.up(&MEDIUM_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    disk.freeze();
    let frozen = Instant::now();
    wait_until("a lease to be over", SOON, async || {
        (frozen.elapsed() > MEDIUM_LEASE + Duration::from_secs(3)).then_some(())
    })
    .await;
    let (log, alive) = (up.log(), harness.history.alive());
    // Thaw before any assertion: a node that waits for a frozen disk cannot be killed.
    disk.thaw();
    assert!(!alive.is_empty(), "the task was stopped");
    assert!(log.contains("the store is not answering"), "{log}");
    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (1, 1), "{task:?}");
    assert!(!up.log().contains("session expired"));
    harness.system.leftovers().wait_until_clean().await;
}

/// The states of the tasks' processes that were sent SIGKILL and still exist.
fn states(harness: &FaultHarness) -> Vec<String> {
    let processes = harness.system.leftovers().processes();
    let state = |process: &String| {
        let path = process.split(':').next().unwrap_or_default();
        let status = std::fs::read_to_string(format!("{path}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("State:"));
        line.unwrap_or_default().trim().to_string()
    };
    processes.iter().map(state).collect()
}

fn assert_hanging(harness: &FaultHarness, count: usize) {
    let states = states(harness);
    let hanging = states.iter().filter(|state| state.starts_with('D')).count();
    assert_eq!(hanging, count, "{states:?}");
}

/// A process in state D does not exit after SIGKILL.
#[tokio::test]
async fn a_node_starts_although_a_killed_process_hangs_in_the_kernel() {
    let harness = FaultHarness::new();
    let mount = HangingMount::mount(&harness.path("hanging"));
    let args = [&LONG_LEASE_FLAGS[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let up = harness.system.up(&args).unwrap();
    let [once, file] = [harness.path("once"), mount.file()].map(|path| path.display().to_string());
    let mut hanging = shell(&format!("mkdir {once} && exec cat {file}; echo well"));
    hanging["execute"]["limits"]["wall"] = "2s".into();
    let id = harness.system.add(hanging).await.id;
    wait_until("the warden of the attempt to be killed", SOON, async || {
        up.log().contains("killed its warden").then_some(())
    })
    .await;
    up.kill();

    let up = harness.system.up(&args).unwrap();
    assert_hanging(&harness, 1);
    assert!(up.log().contains("hang in the kernel"), "{}", up.log());
    let task = harness.system.done(id).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 2), "{task:?}");
    drop(mount);
    harness.system.leftovers().wait_until_clean().await;
}

/// Processes of a cell that do not exit keep its control group.
#[tokio::test]
async fn attempts_that_hang_in_the_kernel_block_no_other_cell() {
    let harness = FaultHarness::new();
    let mount = HangingMount::mount(&harness.path("hanging"));
    let bind = format!("sandbox.binds={}:/hanging", harness.path("hanging").display());
    let cells = ["--isolation", "cell", "--slots", "1", "--set", &bind];
    let args = [&LONG_LEASE_FLAGS[..], &SHORT_STALL, &cells].concat();
    let mut up = harness.system.up(&args).unwrap();
    let mut hanging = shell("exec cat /hanging/file");
    hanging["execute"]["limits"]["wall"] = "2s".into();
    // The task has three attempts.
    let task = harness.system.run(hanging).await;
    assert_eq!(
        (task.status, task.attempt),
        (TaskStatus::SystemError, 3),
        "{task:?}"
    );
    assert_hanging(&harness, 3);
    let task = harness.system.run(shell("echo well")).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1), "{task:?}");
    assert!(!up.log().contains("out of service"), "{}", up.log());

    up.signal(Signal::SIGTERM);
    up.wait_for_end(SOON).await;
    let up = harness.system.up(&args).unwrap();
    assert_hanging(&harness, 3);
    let task = harness.system.run(shell("echo well")).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1), "{task:?}");

    let groups = || groups_of(&harness);
    assert!(
        groups().iter().any(|group| group.ends_with("slot-0.2")),
        "{:?}",
        groups()
    );
    drop(mount);
    harness.system.leftovers().wait_until_clean().await;
    up.kill();
    // At the next start the groups are empty and are removed.
    let mut up = harness.system.up(&args).unwrap();
    assert!(
        !groups().iter().any(|group| group.ends_with("slot-0.2")),
        "{:?}",
        groups()
    );
    up.signal(Signal::SIGTERM);
    up.wait_for_end(SOON).await;
    assert_eq!(groups(), Vec::<std::path::PathBuf>::new());
}

/// The control groups of the node's cells.
fn groups_of(harness: &FaultHarness) -> Vec<std::path::PathBuf> {
    let id = std::fs::read_to_string(harness.system.data().join("executor/id")).unwrap();
    let name = format!("conclave-{}", id.trim());
    let places = control_groups_named(|group| group == name);
    places
        .iter()
        .flat_map(|place| control_groups_beneath(place))
        .collect()
}
