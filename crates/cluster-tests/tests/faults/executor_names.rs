use cluster_tests::NodeProcess;
use model::TaskStatus;
use nix::sys::signal::Signal;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SHORT_LEASE_FLAGS, SOON};

#[tokio::test]
async fn a_second_executor_with_the_same_name_is_refused() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    let session = harness.executor("e").await.unwrap().session;

    let data = harness.path("other").display().to_string();
    let rpc = first.address("rpc");
    let args = ["executor", "--name", "e", "--judicator", &rpc, "--data", &data];
    // Its own settings determine for how long it retries.
    let mut second = NodeProcess::start(
        "other",
        system.folder.path(),
        &[&args, &SHORT_LEASE_FLAGS[..]].concat(),
    )
    .unwrap();
    assert_eq!(second.wait_for_end(SOON).await.code(), Some(1));
    let log = second.log();
    assert!(
        log.contains("an executor named e is already running") && log.contains("executor.name"),
        "{log}"
    );

    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(harness.executor("e").await.unwrap().session, session);
}

#[tokio::test]
async fn a_second_node_on_a_data_folder_in_use_is_refused() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _up = system.up(&[]).unwrap();
    let data = system.data().display().to_string();
    let args = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--rpc",
        "127.0.0.1:0",
        "--data",
        &data,
    ];
    let refused = NodeProcess::start("other", system.folder.path(), &args);
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(
        error.contains("already runs the node of this data folder") && error.contains(&data),
        "{error}"
    );
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
}

#[tokio::test]
async fn an_executor_joins_by_address_and_gives_back_its_task_when_stopped() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let flags = [
        &LONG_LEASE_FLAGS[..],
        &["--slots", "1", "--set", "executor.stop_grace=100ms"],
    ]
    .concat();
    let named = [&flags[..], &["--name", "home"]].concat();
    let _up = system.up(&named).unwrap();
    let mut joined = system.executor("joined", &flags).unwrap();
    system.ready(2).await;

    let mut ids = vec![harness.add_waiting().await, harness.add_waiting().await];
    let mut at = Vec::new();
    for id in &ids {
        harness.wait_for_runs(*id, 1).await;
        at.push(
            harness
                .wait_for_status(*id, TaskStatus::Running)
                .await
                .executor
                .unwrap()
                .to_string(),
        );
    }
    if at[0] == "joined" {
        ids.reverse();
        at.reverse();
    }
    assert_eq!(at, ["home", "joined"]);

    joined.signal(Signal::SIGTERM);
    assert_eq!(joined.wait_for_end(SOON).await.code(), Some(0));
    assert_eq!(harness.executor("joined").await.unwrap().health, "gone");
    let given_back = harness.get(ids[1]).await;
    assert_eq!(
        (given_back.status, given_back.executor),
        (TaskStatus::Retrying, None)
    );
    system.leftovers_at("joined").wait_until_unused().await;

    let (stayed, runs) = harness.finish(ids[0]).await;
    assert_eq!((stayed.attempt, runs.len()), (1, 1));
    let (moved, runs) = harness.finish(ids[1]).await;
    assert_eq!((moved.attempt, runs.len()), (2, 2));
}
