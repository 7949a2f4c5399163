use std::time::Instant;

use cluster_tests::wait_until;
use model::TaskStatus;
use nix::sys::signal::Signal;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SOON};

#[tokio::test]
async fn a_cancelled_task_is_killed_with_all_children_and_stays_cancelled() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let flags = [&LONG_LEASE_FLAGS[..], &["--slots", "1"]].concat();
    let up = system.up(&flags).unwrap();
    let runs = harness.add_waiting().await;
    let waits = system.add(harness.short_task()).await.id;
    harness.wait_for_runs(runs, 1).await;
    let mut cancelled = Vec::new();
    // In this order, because the queued task may start as soon as the slot is free.
    for id in [waits, runs] {
        let task = system.client.cancel(id).await.unwrap();
        assert_eq!((task.status, task.done), (TaskStatus::Cancelled, true));
        cancelled.push(task);
    }
    let begun = Instant::now();
    harness.wait_until_all_gone().await;
    println!("its processes are gone after {:?}", begun.elapsed());
    system.leftovers().wait_until_clean().await;
    harness.open("gate");
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);

    up.kill();
    let _up = system.up(&flags).unwrap();
    system.ready(1).await;
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
    for task in cancelled {
        assert_eq!(harness.get(task.id).await, task);
    }
    assert_eq!(harness.history.runs_of(runs).len(), 1);
    assert_eq!(harness.history.runs_of(waits).len(), 0);
}

/// The task has succeeded, but its cancel was acknowledged first.
#[tokio::test]
async fn a_result_that_arrives_after_the_cancel_is_not_accepted() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let flags = [&LONG_LEASE_FLAGS[..], &["--slots", "1"]].concat();
    let executor = system.executor("e", &flags).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    executor.signal(Signal::SIGSTOP);
    harness.open("gate");
    wait_until("the run to end", SOON, async || {
        harness.history.runs_of(id)[0].end
    })
    .await;
    let cancelled = system.client.cancel(id).await.unwrap();
    executor.signal(Signal::SIGCONT);
    // There is one slot, so the judicator has answered the first result when this task is done.
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
    let task = harness.get(id).await;
    assert_eq!((task.status, &task.result), (TaskStatus::Cancelled, &None));
    assert_eq!(task, cancelled);
    system.leftovers_at("e").wait_until_clean().await;
}
