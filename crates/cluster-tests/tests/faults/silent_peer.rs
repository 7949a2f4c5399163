use cluster_tests::{Node, Relay, await_that};
use model::TaskId;

use crate::stage::{FAIR_LEASE, SOON, Stage};

struct Scene {
    stage: Stage,
    relay: Relay,
    _nodes: [Node; 3],
    task: TaskId,
}

#[derive(PartialEq)]
enum Ways {
    Relay,
    RelayThenDirect,
}

/// A task runs on an executor that reaches its judicator by way of a relay. The lease outlives one report without an
/// answer, but not a wait for the connection to be given up by itself.
async fn scene(ways: Ways) -> Scene {
    let stage = Stage::new();
    let system = &stage.system;
    let judicator = system.judicator(&FAIR_LEASE).unwrap();
    let gateway = system.gateway(&[]).unwrap();
    let relay = Relay::start(system.rpc()).await.unwrap();
    let data = stage.path("e").display().to_string();
    let args = [
        "executor",
        "--name",
        "e",
        "--data",
        &data,
        "--judicator",
        &relay.address,
    ];
    let mut args = [&args, &FAIR_LEASE[..]].concat();
    if ways == Ways::RelayThenDirect {
        args.extend(["--judicator", system.rpc()]);
    }
    let executor = Node::start("e", system.folder.path(), &args).unwrap();
    let task = stage.add_waiting().await;
    stage.runs(task, 1).await;
    Scene {
        _nodes: [executor, gateway, judicator],
        stage,
        relay,
        task,
    }
}

/// The executor finds another way in time, and its task goes on.
async fn goes_on(scene: &Scene) {
    let Scene { stage, task, .. } = scene;
    let before = stage.executor("e").await.unwrap();
    // More than the reports that may have been on their way.
    for _ in 0..3 {
        let last = stage.executor("e").await.unwrap().report_time;
        await_that("the executor to report", SOON, async || {
            (stage.executor("e").await?.report_time > last).then_some(())
        })
        .await;
    }
    let (task, runs) = stage.finish(*task).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(stage.executor("e").await.unwrap().session, before.session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_without_a_word_is_replaced_in_time() {
    let scene = scene(Ways::Relay).await;
    scene.relay.silence_connections();
    goes_on(&scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_judicator_that_hangs_is_passed_over_in_time() {
    let scene = scene(Ways::RelayThenDirect).await;
    scene.relay.silence();
    goes_on(&scene).await;
}
