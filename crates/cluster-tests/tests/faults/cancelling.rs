use std::time::Instant;

use cluster_tests::await_that;
use model::Status;
use nix::sys::signal::Signal;

use crate::stage::{LONG_LEASE, SOON, Stage};

#[tokio::test]
async fn a_cancelled_task_dies_with_all_children_and_stays_cancelled() {
    let stage = Stage::new();
    let system = &stage.system;
    let flags = [&LONG_LEASE[..], &["--slots", "1"]].concat();
    let up = system.up(&flags).unwrap();
    let runs = stage.add_waiting().await;
    let waits = system.add(stage.quick()).await.id;
    stage.runs(runs, 1).await;
    let mut cancelled = Vec::new();
    // In this order: the one that waits may begin as soon as the slot is free.
    for id in [waits, runs] {
        let task = system.client.cancel(id).await.unwrap();
        assert_eq!((task.status, task.done), (Status::Cancelled, true));
        cancelled.push(task);
    }
    let begun = Instant::now();
    stage.nobody_alive().await;
    println!("its processes are gone after {:?}", begun.elapsed());
    system.remains().await_none().await;
    stage.open("gate");
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);

    up.kill();
    let _up = system.up(&flags).unwrap();
    system.ready(1).await;
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
    for task in cancelled {
        assert_eq!(stage.look(task.id).await, task);
    }
    assert_eq!(stage.history.runs_of(runs).len(), 1);
    assert_eq!(stage.history.runs_of(waits).len(), 0);
}

/// The task has ended well, but whoever cancelled it was told first.
#[tokio::test]
async fn a_result_that_comes_after_the_cancel_is_not_accepted() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let flags = [&LONG_LEASE[..], &["--slots", "1"]].concat();
    let executor = system.executor("e", &flags).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    executor.signal(Signal::SIGSTOP);
    stage.open("gate");
    await_that("the run to end well", SOON, async || {
        stage.history.runs_of(id)[0].end
    })
    .await;
    let cancelled = system.client.cancel(id).await.unwrap();
    executor.signal(Signal::SIGCONT);
    // There is one slot: when this one is done, the result of the first has been answered.
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
    let task = stage.look(id).await;
    assert_eq!((task.status, &task.result), (Status::Cancelled, &None));
    assert_eq!(task, cancelled);
    system.remains_at("e").await_none().await;
}
