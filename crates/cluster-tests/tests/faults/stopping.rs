use std::time::Instant;

use cluster_tests::{Node, await_that};
use model::Status;
use nix::sys::signal::Signal;

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
