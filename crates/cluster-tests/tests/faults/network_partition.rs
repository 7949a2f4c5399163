use std::time::Instant;

use cluster_tests::{NodeProcess, VethNetwork};
use model::TaskStatus;

use crate::harness::{FaultHarness, SHORT_LEASE_FLAGS};

/// The executor must stop its tasks before its lease expires, and reconnect when the network is back.
#[tokio::test]
async fn an_executor_without_a_network_stops_its_tasks_and_comes_back() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let folder = system.folder.path();
    let network = VethNetwork::create();
    let rpc = format!("{}:7010", network.outside());
    let secret = harness.path("secret");
    std::fs::write(&secret, "correct-horse-battery-staple\n").unwrap();
    let [judicators_data, far_data, near_data] =
        ["data", "far", "near"].map(|name| harness.path(name).display().to_string());
    let secret = secret.display().to_string();
    let shared = [&SHORT_LEASE_FLAGS[..], &["--cluster-file", &secret]].concat();

    let judicator = ["judicator", "--listen", &rpc, "--data", &judicators_data];
    let _judicator = NodeProcess::start("judicator", folder, &[&judicator, &shared[..]].concat()).unwrap();
    let gateway = ["gateway", "--listen", system.http(), "--judicator", &rpc];
    let _gateway = NodeProcess::start("gateway", folder, &[&gateway, &shared[..]].concat()).unwrap();
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
    let _far = NodeProcess::launch("far", folder, command).unwrap();
    let id = harness.add_waiting().await;
    let run = harness.wait_for_runs(id, 1).await.remove(0);
    let session = harness.executor("far").await.unwrap().session;

    let near = [
        "executor",
        "--name",
        "near",
        "--judicator",
        &rpc,
        "--data",
        &near_data,
    ];
    let _near = NodeProcess::start("near", folder, &[&near, &shared[..]].concat()).unwrap();

    network.disconnect();
    let disconnected = Instant::now();
    harness.wait_until_gone(&run).await;
    println!("its tasks were stopped after {:?}", disconnected.elapsed());
    harness.wait_for_runs(id, 2).await;
    println!(
        "another executor runs the task after {:?}",
        disconnected.elapsed()
    );
    assert_eq!(harness.executor("far").await.unwrap().health, "gone");

    network.reconnect();
    let reconnected = Instant::now();
    harness.wait_for_other_session("far", &session).await;
    println!(
        "the executor is back {:?} after the network",
        reconnected.elapsed()
    );
    let (task, runs) = harness.finish(id).await;
    assert!(runs.len() >= 2 && task.attempt as usize >= runs.len(), "{task:?}");
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
    for name in ["far", "near"] {
        system.leftovers_at(name).wait_until_clean().await;
    }
}
