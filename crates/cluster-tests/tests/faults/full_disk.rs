use api::{ClientError, NewTask, Problem};
use cluster_tests::{Disk, System, await_that, shell};
use model::{Status, TaskId};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::stage::{LONG_LEASE, SHORT_LEASE, SOON, Stage, output};

/// Adds tasks with so much input until one is refused.
async fn add_until_refused(system: &System, bytes: usize) -> (Vec<TaskId>, Problem) {
    let task = json!({"user": "tests", "execute": {"command": "wc -c", "input": "x".repeat(bytes)}});
    let task: NewTask = serde_json::from_value(task).unwrap();
    let mut ids = Vec::new();
    loop {
        assert!(ids.len() < 10_000, "the disk is never full");
        match system.client.add(&task, None).await {
            Ok(task) => ids.push(task.id),
            Err(ClientError::Problem(problem)) => return (ids, *problem),
            Err(error) => panic!("not a problem: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_full_store_refuses_and_goes_on_when_there_is_room() {
    let stage = Stage::new();
    let system = &stage.system;
    let disk = Disk::mount(&system.data().join("store"), "16m");
    let mut up = system.up(&LONG_LEASE).unwrap();
    disk.fill(2 << 20);
    let mut kept = Vec::new();
    // Inside the task, and as a blob beside it.
    for bytes in [30 << 10, 60 << 10, 1 << 10] {
        let (ids, problem) = add_until_refused(system, bytes).await;
        println!("{} tasks of {bytes} bytes, then: {}", ids.len(), problem.detail);
        assert_eq!((problem.status, &problem.kind[..]), (503, "/api/docs#full"));
        let store = system.data().join("store").display().to_string();
        assert!(problem.detail.contains(&store) && problem.detail.contains("free some space"));
        kept.extend(ids.into_iter().map(|id| (id, bytes)));
    }
    assert!(!kept.is_empty());
    disk.free();
    let after = system.run(stage.quick()).await;
    assert_eq!(after.status, Status::Success);
    for (id, bytes) in &kept {
        let task = system.done(*id).await;
        assert_eq!(
            (task.status, output(&task)),
            (Status::Success, &format!("{bytes}\n")[..])
        );
    }
    let stats = system.client.stats().await.unwrap();
    assert_eq!(stats.counts.values().sum::<u64>(), kept.len() as u64 + 1);
    system.remains().await_none().await;
    up.signal(Signal::SIGTERM);
    assert!(up.ended(SOON).await.success());
}

fn with_data(bytes: usize) -> Value {
    json!({"user": "tests", "data": {"file": "x".repeat(bytes)}, "execute": {"command": "wc -c < data/file"}})
}

/// All that the executor keeps, its results included, on a disk that is full at times.
#[tokio::test]
async fn a_full_disk_under_the_executor_delays_tasks_and_ends_none() {
    let stage = Stage::new();
    let system = &stage.system;
    let disk = Disk::mount(&system.data().join("executor"), "4m");
    let _up = system.up(&LONG_LEASE).unwrap();
    // A task that fills the disk by itself has only itself to blame.
    let greedy = system.run(shell("dd if=/dev/zero of=big bs=1M count=8")).await;
    assert_eq!(greedy.status, Status::RunFailed);
    let stderr = greedy.result.unwrap().execute.unwrap().stderr;
    assert!(stderr.contains("No space left on device"), "{stderr}");
    // Its room is free again for the next.
    let next = system.run(with_data(1 << 20)).await;
    assert_eq!((next.status, output(&next)), (Status::Success, "1048576\n"));

    let waits = stage.add_waiting().await;
    stage.runs(waits, 1).await;
    disk.fill(0);
    let mut delayed = Vec::new();
    for bytes in [10, 64 << 10] {
        let id = system.add(with_data(bytes)).await.id;
        await_that(
            &format!("a failed attempt with {bytes} bytes"),
            SOON,
            async || {
                let trouble = stage.look(id).await.trouble?;
                trouble.contains("No space left on device").then_some(())
            },
        )
        .await;
        delayed.push(id);
    }
    // There is no room for its result either, but somebody to tell it to.
    let (task, runs) = stage.finish(waits).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));

    disk.free();
    for id in delayed {
        let task = system.done(id).await;
        assert_eq!((task.status, task.trouble), (Status::Success, None));
    }
    system.remains().await_none().await;
}

/// Nothing can be written down, not even that a new session begins.
#[tokio::test]
async fn an_executor_whose_session_ends_while_its_disk_is_full_lives_on() {
    let stage = Stage::new();
    let system = &stage.system;
    let disk = Disk::mount(&stage.path("e"), "4m");
    let _judicator = system.judicator(&SHORT_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &SHORT_LEASE).unwrap();
    system.ready(1).await;
    let session = stage.executor("e").await.unwrap().session;
    disk.fill(0);
    executor.signal(Signal::SIGSTOP);
    await_that("the session to end", SOON, async || {
        (stage.executor("e").await?.health == "gone").then_some(())
    })
    .await;
    executor.signal(Signal::SIGCONT);
    stage.another_session("e", &session).await;
    disk.free();
    assert_eq!(system.run(with_data(64 << 10)).await.status, Status::Success);
    system.remains_at("e").await_none().await;
}

/// Where an operator gives the workspaces a disk of their own.
#[tokio::test]
async fn the_workspaces_may_be_a_disk_of_their_own() {
    let stage = Stage::new();
    let system = &stage.system;
    let _disk = Disk::mount(&system.data().join("executor/work"), "4m");
    let up = system.up(&LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    up.kill();
    let _up = system.up(&LONG_LEASE).unwrap();
    stage.runs(id, 2).await;
    stage.finish(id).await;
    system.remains().await_none().await;
}
