use std::time::Instant;

use cluster_tests::{Network, Node};
use model::Status;

use crate::stage::{SHORT_LEASE, Stage};

/// The executor lives on but nobody hears it, and it hears nobody. It must stop its tasks in time, and come back
/// when the network does.
#[tokio::test]
async fn an_executor_without_a_network_stops_its_tasks_and_comes_back() {
    let stage = Stage::new();
    let system = &stage.system;
    let folder = system.folder.path();
    let network = Network::make();
    let rpc = format!("{}:7010", network.outside());
    let secret = stage.path("secret");
    std::fs::write(&secret, "correct-horse-battery-staple\n").unwrap();
    let [judicators_data, far_data, near_data] =
        ["data", "far", "near"].map(|name| stage.path(name).display().to_string());
    let secret = secret.display().to_string();
    let shared = [&SHORT_LEASE[..], &["--cluster-file", &secret]].concat();

    let judicator = ["judicator", "--listen", &rpc, "--data", &judicators_data];
    let _judicator = Node::start("judicator", folder, &[&judicator, &shared[..]].concat()).unwrap();
    let gateway = ["gateway", "--listen", system.http(), "--judicator", &rpc];
    let _gateway = Node::start("gateway", folder, &[&gateway, &shared[..]].concat()).unwrap();
    let far = [
        "executor",
        "--name",
        "far",
        "--judicator",
        &rpc,
        "--data",
        &far_data,
    ];
    let mut command = network.conclave();
    command.args(far).args(&shared);
    let _far = Node::launch("far", folder, command).unwrap();
    let id = stage.add_waiting().await;
    let run = stage.runs(id, 1).await.remove(0);
    let session = stage.executor("far").await.unwrap().session;

    let near = [
        "executor",
        "--name",
        "near",
        "--judicator",
        &rpc,
        "--data",
        &near_data,
    ];
    let _near = Node::start("near", folder, &[&near, &shared[..]].concat()).unwrap();

    network.cut();
    let cut = Instant::now();
    stage.gone(&run).await;
    println!("its tasks were stopped after {:?}", cut.elapsed());
    stage.runs(id, 2).await;
    println!("another executor runs the task after {:?}", cut.elapsed());
    assert_eq!(stage.executor("far").await.unwrap().health, "gone");

    network.heal();
    let healed = Instant::now();
    stage.another_session("far", &session).await;
    println!("the executor is back {:?} after the network", healed.elapsed());
    let (task, runs) = stage.finish(id).await;
    assert!(runs.len() >= 2 && task.attempt as usize >= runs.len(), "{task:?}");
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
    for name in ["far", "near"] {
        system.remains_at(name).await_none().await;
    }
}
