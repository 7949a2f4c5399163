use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cluster_tests::{Node, await_that};
use model::Status;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::stage::{LONG_LEASE, SOON, Stage};

const NO_GRACE: [&str; 4] = ["--slots", "1", "--set", "executor.stop_grace=100ms"];
const MUCH_GRACE: [&str; 4] = ["--slots", "1", "--set", "executor.stop_grace=5m"];
/// Only to look: no task is run.
const NO_SLOTS: [&str; 2] = ["--slots", "0"];

async fn stop(mut node: Node) {
    node.signal(Signal::SIGTERM);
    let status = node.ended(SOON).await;
    assert_eq!(status.code(), Some(0), "{status}");
}

async fn begins_to_stop(node: &Node) {
    node.signal(Signal::SIGTERM);
    await_that("the executor to stop", SOON, async || {
        node.log().contains("executor stops").then_some(())
    })
    .await;
}

/// More often than a task may be lost: being given back is not being lost.
#[tokio::test]
async fn what_cannot_end_in_time_is_given_back_as_often_as_it_takes() {
    const STOPS: u32 = 5;
    let stage = Stage::new();
    let system = &stage.system;
    let mut up = system.up(&NO_GRACE).unwrap();
    let runs = stage.add_waiting().await;
    let waits = system.add(stage.quick()).await.id;
    for count in 1..=STOPS {
        stage.runs(runs, count as usize).await;
        let begun = Instant::now();
        stop(up).await;
        println!("stop {count} took {:?}", begun.elapsed());
        assert_eq!(stage.history.alive(), [0; 0]);
        system.remains().await_nobody().await;

        let idle = system.up(&NO_SLOTS).unwrap();
        let task = stage.look(runs).await;
        assert_eq!(
            (task.status, task.attempt, task.executor),
            (Status::Retrying, count, None)
        );
        let task = stage.look(waits).await;
        assert_eq!((task.status, task.attempt), (Status::Pending, 0));
        stop(idle).await;
        up = system.up(&NO_GRACE).unwrap();
    }
    let (task, _) = stage.finish(runs).await;
    assert_eq!((task.attempt, task.trouble), (STOPS + 1, None));
    let task = system.done(waits).await;
    assert_eq!((task.status, task.attempt), (Status::Success, 1));
    stop(up).await;
    system.remains().await_nobody().await;
}

#[tokio::test]
async fn what_ends_within_the_grace_is_committed() {
    let stage = Stage::new();
    let system = &stage.system;
    let flags = [&LONG_LEASE[..], &MUCH_GRACE].concat();
    let mut up = system.up(&flags).unwrap();
    let runs = stage.add_waiting().await;
    let waits = system.add(stage.quick()).await.id;
    stage.runs(runs, 1).await;
    begins_to_stop(&up).await;
    stage.open("gate");
    assert_eq!(up.ended(SOON).await.code(), Some(0));
    system.remains().await_nobody().await;

    let idle = system.up(&NO_SLOTS).unwrap();
    let (task, runs) = stage.finish(runs).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(stage.look(waits).await.status, Status::Pending);
    stop(idle).await;
    let _up = system.up(&flags).unwrap();
    assert_eq!(system.done(waits).await.status, Status::Success);
}

/// What waits for its blobs has not begun: it is given back at once, and nobody waits for the rest of them.
#[tokio::test]
async fn a_stop_waits_for_no_blob() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let input = "too much to come along\n".repeat(10_000);
    let task = system
        .add(json!({"execute": {"command": "md5sum > /dev/null", "input": input}}))
        .await;
    // A pipe in the place of the blob, so that it comes when the test wants it to, which is never.
    let blob = only_file_beneath(&system.data().join("store/blobs"));
    let aside = stage.path("blob");
    std::fs::rename(&blob, &aside).unwrap();
    nix::unistd::mkfifo(&blob, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let flags = [&LONG_LEASE[..], &NO_GRACE].concat();
    let mut executor = system.executor("e", &flags).unwrap();
    let writing = await_that("the blob to be asked for", SOON, async || {
        let mut options = std::fs::File::options();
        options.write(true).custom_flags(nix::libc::O_NONBLOCK);
        options.open(&blob).ok()
    })
    .await;
    executor.signal(Signal::SIGTERM);
    assert_eq!(executor.ended(SOON).await.code(), Some(0));
    let log = executor.log();
    assert!(!log.contains("did not stop"), "{log}");
    let given_back = stage.status(task.id, Status::Retrying).await;
    assert_eq!((given_back.executor, given_back.trouble), (None, None));

    std::fs::rename(&aside, &blob).unwrap();
    drop(writing);
    let _executor = system.executor("e", &flags).unwrap();
    let task = system.done(task.id).await;
    assert_eq!((task.status, task.trouble), (Status::Success, None));
}

fn only_file_beneath(folder: &Path) -> PathBuf {
    let only = |folder: &Path| -> PathBuf {
        let mut entries = std::fs::read_dir(folder).expect("a folder");
        let first = entries.next().expect("something in it").expect("an entry");
        assert!(entries.next().is_none(), "more than one in {}", folder.display());
        first.path()
    };
    only(&only(folder))
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let stage = Stage::new();
    let system = &stage.system;
    let flags = [&LONG_LEASE[..], &MUCH_GRACE].concat();
    let mut up = system.up(&flags).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    begins_to_stop(&up).await;
    up.signal(Signal::SIGTERM);
    let status = up.ended(SOON).await;
    assert_eq!(status.code(), Some(128 + Signal::SIGTERM as i32), "{status}");
    stage.nobody_alive().await;

    let up = system.up(&flags).unwrap();
    stage.runs(id, 2).await;
    let (task, _) = stage.finish(id).await;
    assert_eq!(task.attempt, 2);
    stop(up).await;
    system.remains().await_nobody().await;
}
