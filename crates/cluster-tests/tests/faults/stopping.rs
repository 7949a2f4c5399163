use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cluster_tests::{NodeProcess, wait_until};
use model::TaskStatus;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SOON};

const NO_GRACE: [&str; 4] = ["--slots", "1", "--set", "executor.stop_grace=100ms"];
const MUCH_GRACE: [&str; 4] = ["--slots", "1", "--set", "executor.stop_grace=5m"];
/// A node that runs no tasks, to inspect the store.
const NO_SLOTS: [&str; 2] = ["--slots", "0"];

async fn stop(mut node: NodeProcess) {
    node.signal(Signal::SIGTERM);
    let status = node.wait_for_end(SOON).await;
    assert_eq!(status.code(), Some(0), "{status}");
}

async fn request_stop(node: &NodeProcess) {
    node.signal(Signal::SIGTERM);
    wait_until("the executor to stop", SOON, async || {
        node.log().contains("executor is stopping").then_some(())
    })
    .await;
}

/// More often than a task may be lost, because given back is not lost.
#[tokio::test]
async fn tasks_that_exceed_the_grace_are_given_back_without_losing_an_attempt() {
    const STOPS: u32 = 5;
    let harness = FaultHarness::new();
    let system = &harness.system;
    let mut up = system.up(&NO_GRACE).unwrap();
    let runs = harness.add_waiting().await;
    let waits = system.add(harness.short_task()).await.id;
    for count in 1..=STOPS {
        harness.wait_for_runs(runs, count as usize).await;
        let begun = Instant::now();
        stop(up).await;
        println!("stop {count} took {:?}", begun.elapsed());
        assert_eq!(harness.history.alive(), [0; 0]);
        system.leftovers().wait_until_unused().await;

        let idle = system.up(&NO_SLOTS).unwrap();
        let task = harness.get(runs).await;
        assert_eq!(
            (task.status, task.attempt, task.executor),
            (TaskStatus::Retrying, count, None)
        );
        let task = harness.get(waits).await;
        assert_eq!((task.status, task.attempt), (TaskStatus::Pending, 0));
        stop(idle).await;
        up = system.up(&NO_GRACE).unwrap();
    }
    let (task, _) = harness.finish(runs).await;
    assert_eq!((task.attempt, task.trouble), (STOPS + 1, None));
    let task = system.done(waits).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1));
    stop(up).await;
    system.leftovers().wait_until_unused().await;
}

#[tokio::test]
async fn tasks_that_end_within_the_grace_are_committed() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let flags = [&LONG_LEASE_FLAGS[..], &MUCH_GRACE].concat();
    let mut up = system.up(&flags).unwrap();
    let runs = harness.add_waiting().await;
    let waits = system.add(harness.short_task()).await.id;
    harness.wait_for_runs(runs, 1).await;
    request_stop(&up).await;
    harness.open("gate");
    assert_eq!(up.wait_for_end(SOON).await.code(), Some(0));
    system.leftovers().wait_until_unused().await;

    let idle = system.up(&NO_SLOTS).unwrap();
    let (task, runs) = harness.finish(runs).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(harness.get(waits).await.status, TaskStatus::Pending);
    stop(idle).await;
    let _up = system.up(&flags).unwrap();
    assert_eq!(system.done(waits).await.status, TaskStatus::Success);
}

/// A task that waits for its blobs is given back at once, without waiting for the download.
#[tokio::test]
async fn a_stop_does_not_wait_for_blobs() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let input = "too much to come along\n".repeat(10_000);
    let task = system
        .add(json!({"execute": {"command": "md5sum > /dev/null", "input": input}}))
        .await;
    // A FIFO in place of the blob, so that its download never completes.
    let blob = only_file_beneath(&system.data().join("store/blobs"));
    let aside = harness.path("blob");
    std::fs::rename(&blob, &aside).unwrap();
    nix::unistd::mkfifo(&blob, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let flags = [&LONG_LEASE_FLAGS[..], &NO_GRACE].concat();
    let mut executor = system.executor("e", &flags).unwrap();
    let writing = wait_until("the blob to be requested", SOON, async || {
        let mut options = std::fs::File::options();
        options.write(true).custom_flags(nix::libc::O_NONBLOCK);
        options.open(&blob).ok()
    })
    .await;
    executor.signal(Signal::SIGTERM);
    assert_eq!(executor.wait_for_end(SOON).await.code(), Some(0));
    let log = executor.log();
    assert!(!log.contains("did not stop"), "{log}");
    let given_back = harness.wait_for_status(task.id, TaskStatus::Retrying).await;
    assert_eq!((given_back.executor, given_back.trouble), (None, None));

    std::fs::rename(&aside, &blob).unwrap();
    drop(writing);
    let _executor = system.executor("e", &flags).unwrap();
    let task = system.done(task.id).await;
    assert_eq!((task.status, task.trouble), (TaskStatus::Success, None));
}

/// The store has a folder for each first byte of a hash.
fn only_file_beneath(folder: &Path) -> PathBuf {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let files: Vec<_> = entries(folder)
        .iter()
        .flat_map(|folder| entries(folder))
        .collect();
    let [file] = &files[..] else {
        panic!("not one file beneath {}: {files:?}", folder.display());
    };
    file.clone()
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let flags = [&LONG_LEASE_FLAGS[..], &MUCH_GRACE].concat();
    let mut up = system.up(&flags).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    request_stop(&up).await;
    up.signal(Signal::SIGTERM);
    let status = up.wait_for_end(SOON).await;
    assert_eq!(status.code(), Some(128 + Signal::SIGTERM as i32), "{status}");
    harness.wait_until_all_gone().await;

    let up = system.up(&flags).unwrap();
    harness.wait_for_runs(id, 2).await;
    let (task, _) = harness.finish(id).await;
    assert_eq!(task.attempt, 2);
    stop(up).await;
    system.leftovers().wait_until_unused().await;
}
