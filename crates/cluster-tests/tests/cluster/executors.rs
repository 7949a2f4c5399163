use std::time::Instant;

use cluster_tests::{ClusterProcess, shell, wait_until};
use model::{TaskId, TaskStatus};
use nix::sys::signal::Signal;

use crate::harness::{BusyCluster, LONGER_THAN_LEASES};

const SOON: std::time::Duration = std::time::Duration::from_secs(60);

/// Adds a task that runs until the gate opens, and returns the executor that runs it.
async fn long_task(busy: &mut BusyCluster, gate: &str) -> (TaskId, String) {
    let gate = busy.cluster.folder().join(gate);
    let mut task = shell(
        &busy
            .cluster
            .history
            .until(&gate)
            .replace("echo $$", "echo $CONCLAVE_TASK $$"),
    );
    // Above the priority of the load.
    task["priority"] = 10.into();
    let task = serde_json::from_value(task).unwrap();
    let id = busy.cluster.client().add(&task, None).await.unwrap().id;
    busy.load.expect(id);
    (id, wait_for_run(busy, id, 1).await)
}

/// Waits for run number `count` of the task, and returns its executor.
async fn wait_for_run(busy: &BusyCluster, id: TaskId, count: usize) -> String {
    wait_until(&format!("run {count} of {id}"), SOON, async || {
        let runs = busy.cluster.history.runs_of(id);
        let task = busy.cluster.client().get(id, None).await.ok()?;
        let executor = task.executor?.to_string();
        (runs.len() >= count && task.status == TaskStatus::Running && task.attempt as usize >= count)
            .then_some(executor)
    })
    .await
}

/// Waits until the task runs again, on any executor, and opens its gate.
async fn wait_until_rerun(busy: &BusyCluster, id: TaskId, gate: &str) {
    let begun = Instant::now();
    wait_for_run(busy, id, 2).await;
    println!("the task runs again after {:?}", begun.elapsed());
    std::fs::write(busy.cluster.folder().join(gate), "").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_are_killed_paused_and_cut_off() {
    let mut busy = BusyCluster::start().await;
    let (id, victim) = long_task(&mut busy, "killed").await;
    let fault = busy.fault(format!("kill -9 of the executor of {victim}"));
    let node = busy.cluster.node_mut(&victim);
    node.signal(ClusterProcess::Service("executor"), Signal::SIGKILL)
        .await;
    wait_until_rerun(&busy, id, "killed").await;
    busy.wait_for_progress(&fault).await;

    let (id, victim) = long_task(&mut busy, "boot").await;
    let fault = busy.fault(format!("kill -9 of the boot of {victim}"));
    let node = busy.cluster.node_mut(&victim);
    node.signal(ClusterProcess::Boot, Signal::SIGKILL).await;
    node.wait_until_no_process_runs().await;
    node.start();
    wait_until_rerun(&busy, id, "boot").await;
    busy.wait_for_progress(&fault).await;

    let (id, victim) = long_task(&mut busy, "paused").await;
    let fault = busy.fault(format!("the executor of {victim} is paused"));
    let node = busy.cluster.node_mut(&victim);
    node.signal(ClusterProcess::Service("executor"), Signal::SIGSTOP)
        .await;
    wait_until_rerun(&busy, id, "paused").await;
    let node = busy.cluster.node_mut(&victim);
    node.signal(ClusterProcess::Service("executor"), Signal::SIGCONT)
        .await;
    busy.wait_for_progress(&fault).await;
    busy.cluster.wait_for_executors(2).await;

    let (id, victim) = long_task(&mut busy, "cut").await;
    let fault = busy.fault(format!("{victim} is cut off"));
    busy.cluster.node(&victim).host().disconnect();
    wait_until_rerun(&busy, id, "cut").await;
    busy.cluster.node(&victim).host().reconnect();
    busy.wait_for_progress(&fault).await;
    busy.cluster.wait_for_executors(2).await;
    busy.stop_and_verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_and_proxies_are_killed_and_paused() {
    let mut busy = BusyCluster::start().await;
    for (name, process) in [
        ("g1", ClusterProcess::Service("gateway")),
        ("g1", ClusterProcess::Server("etcd")),
        ("g1", ClusterProcess::Service("etcd")),
        ("e1", ClusterProcess::Server("etcd")),
    ] {
        let fault = busy.fault(format!("kill -9 of {process} at {name}"));
        let node = busy.cluster.node_mut(name);
        let killed = node.signal(process, Signal::SIGKILL).await;
        node.wait_until_replaced(process, killed).await;
        busy.wait_until_complete(fault).await;
    }
    let fault = busy.fault("g1 lost power");
    busy.cluster.node_mut("g1").kill_all();
    busy.wait_for_progress(&fault).await;
    busy.cluster.node_mut("g1").start();
    busy.wait_until_complete(fault).await;
    busy.cluster.node("g1").wait_until_ready().await;

    let fault = busy.fault("the gateway is paused");
    let node = busy.cluster.node_mut("g1");
    node.signal(ClusterProcess::Service("gateway"), Signal::SIGSTOP)
        .await;
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    busy.wait_for_progress(&fault).await;
    let node = busy.cluster.node_mut("g1");
    node.signal(ClusterProcess::Service("gateway"), Signal::SIGCONT)
        .await;
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}
