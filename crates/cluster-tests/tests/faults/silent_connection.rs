use cluster_tests::{NodeProcess, TcpRelay, wait_until};
use model::TaskId;

use crate::harness::{FaultHarness, MEDIUM_LEASE_FLAGS, SOON};

/// A task that runs on an executor under test which reaches its judicator through a TCP relay.
struct RelayedSystem {
    harness: FaultHarness,
    relay: TcpRelay,
    _nodes: [NodeProcess; 3],
    task: TaskId,
}

/// Which addresses of the judicator the executor knows in a test of silent connections.
#[derive(PartialEq)]
enum KnownAddresses {
    RelayOnly,
    RelayAndDirect,
}

/// Starts the system and a task. The lease is longer than one report without an answer, but shorter than TCP's own timeouts.
async fn start(addresses: KnownAddresses) -> RelayedSystem {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let gateway = system.gateway(&[]).unwrap();
    let relay = TcpRelay::start(system.rpc()).await.unwrap();
    let data = harness.path("e").display().to_string();
    let args = [
        "executor",
        "--name",
        "e",
        "--data",
        &data,
        "--judicator",
        &relay.address,
    ];
    let mut args = [&args, &MEDIUM_LEASE_FLAGS[..]].concat();
    if addresses == KnownAddresses::RelayAndDirect {
        args.extend(["--judicator", system.rpc()]);
    }
    let executor = NodeProcess::start("e", system.folder.path(), &args).unwrap();
    let task = harness.add_waiting().await;
    harness.wait_for_runs(task, 1).await;
    RelayedSystem {
        _nodes: [executor, gateway, judicator],
        harness,
        relay,
        task,
    }
}

/// Asserts that the executor reconnects before its lease expires, and that its task continues.
async fn assert_task_continues(system: &RelayedSystem) {
    let RelayedSystem { harness, task, .. } = system;
    let before = harness.executor("e").await.unwrap();
    // More reports than may have been in flight.
    for _ in 0..3 {
        let last = harness.executor("e").await.unwrap().report_time;
        wait_until("the executor to report", SOON, async || {
            (harness.executor("e").await?.report_time > last).then_some(())
        })
        .await;
    }
    let (task, runs) = harness.finish(*task).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(harness.executor("e").await.unwrap().session, before.session);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_replaced_before_the_lease_expires() {
    let system = start(KnownAddresses::RelayOnly).await;
    system.relay.silence_connections();
    assert_task_continues(&system).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_judicator_is_skipped_before_the_lease_expires() {
    let system = start(KnownAddresses::RelayAndDirect).await;
    system.relay.silence();
    assert_task_continues(&system).await;
}
