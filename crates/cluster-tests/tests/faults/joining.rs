use cluster_tests::Node;
use model::Status;
use nix::sys::signal::Signal;

use crate::stage::{LONG_LEASE, SHORT_LEASE, SOON, Stage};

#[tokio::test]
async fn a_second_executor_under_a_name_that_is_taken_is_refused() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("e", &LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    let session = stage.executor("e").await.unwrap().session;

    let data = stage.path("other").display().to_string();
    let rpc = first.address("rpc");
    let args = ["executor", "--name", "e", "--judicator", &rpc, "--data", &data];
    // For how long it tries, its own settings say.
    let mut second = Node::start("other", system.folder.path(), &[&args, &SHORT_LEASE[..]].concat()).unwrap();
    assert_eq!(second.ended(SOON).await.code(), Some(1));
    let log = second.log();
    assert!(
        log.contains("an executor named e is already at work") && log.contains("executor.name"),
        "{log}"
    );

    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(stage.executor("e").await.unwrap().session, session);
}

#[tokio::test]
async fn a_second_system_on_a_data_folder_in_use_is_refused() {
    let stage = Stage::new();
    let system = &stage.system;
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
    let refused = Node::start("other", system.folder.path(), &args);
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(
        error.contains("already runs the node of this data folder") && error.contains(&data),
        "{error}"
    );
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
}

#[tokio::test]
async fn an_executor_joins_by_address_and_leaves_in_order() {
    let stage = Stage::new();
    let system = &stage.system;
    let flags = [
        &LONG_LEASE[..],
        &["--slots", "1", "--set", "executor.stop_grace=100ms"],
    ]
    .concat();
    let named = [&flags[..], &["--name", "home"]].concat();
    let _up = system.up(&named).unwrap();
    let mut joined = system.executor("joined", &flags).unwrap();
    system.ready(2).await;

    let mut ids = vec![stage.add_waiting().await, stage.add_waiting().await];
    let mut at = Vec::new();
    for id in &ids {
        stage.runs(*id, 1).await;
        at.push(
            stage
                .status(*id, Status::Running)
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
    assert_eq!(joined.ended(SOON).await.code(), Some(0));
    assert_eq!(stage.executor("joined").await.unwrap().health, "gone");
    let given_back = stage.look(ids[1]).await;
    assert_eq!((given_back.status, given_back.executor), (Status::Retrying, None));
    system.remains_at("joined").await_nobody().await;

    let (stayed, runs) = stage.finish(ids[0]).await;
    assert_eq!((stayed.attempt, runs.len()), (1, 1));
    let (moved, runs) = stage.finish(ids[1]).await;
    assert_eq!((moved.attempt, runs.len()), (2, 2));
}
