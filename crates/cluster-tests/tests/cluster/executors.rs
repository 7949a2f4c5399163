use std::time::Instant;

use cluster_tests::{Process, await_that, shell};
use model::{Status, TaskId};
use nix::sys::signal::Signal;

use crate::stage::{LONGER_THAN_LEASES, Stage};

const SOON: std::time::Duration = std::time::Duration::from_secs(60);

/// A task that only ends when it is let go, and the executor that runs it.
async fn long_task(stage: &mut Stage, gate: &str) -> (TaskId, String) {
    let gate = stage.cluster.folder().join(gate);
    let mut task = shell(
        &stage
            .cluster
            .history
            .until(&gate)
            .replace("echo $$", "echo $CONCLAVE_TASK $$"),
    );
    // Before all of the load's.
    task["priority"] = 10.into();
    let task = serde_json::from_value(task).unwrap();
    let id = stage.cluster.client().add(&task, None).await.unwrap().id;
    stage.load.expect(id);
    (id, runs(stage, id, 1).await)
}

/// Waits for its so manieth run; says who runs it.
async fn runs(stage: &Stage, id: TaskId, count: usize) -> String {
    await_that(&format!("run {count} of {id}"), SOON, async || {
        let runs = stage.cluster.history.runs_of(id);
        let task = stage.cluster.client().get(id, None).await.ok()?;
        let executor = task.executor?.to_string();
        (runs.len() >= count && task.status == Status::Running && task.attempt as usize >= count)
            .then_some(executor)
    })
    .await
}

/// The task is run again, elsewhere or by the same executor after its return; then it is let go.
async fn runs_again(stage: &Stage, id: TaskId, gate: &str) {
    let begun = Instant::now();
    runs(stage, id, 2).await;
    println!("the task runs again after {:?}", begun.elapsed());
    std::fs::write(stage.cluster.folder().join(gate), "").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_are_killed_paused_and_cut_off() {
    let mut stage = Stage::busy().await;
    let (id, victim) = long_task(&mut stage, "killed").await;
    let fault = stage.fault(format!("kill -9 of the executor of {victim}"));
    let machine = stage.cluster.machine_mut(&victim);
    machine
        .signal(Process::Service("executor"), Signal::SIGKILL)
        .await;
    runs_again(&stage, id, "killed").await;
    stage.resumed(&fault).await;

    let (id, victim) = long_task(&mut stage, "boot").await;
    let fault = stage.fault(format!("kill -9 of the boot of {victim}"));
    let machine = stage.cluster.machine_mut(&victim);
    machine.signal(Process::Boot, Signal::SIGKILL).await;
    machine.nobody().await;
    machine.start();
    runs_again(&stage, id, "boot").await;
    stage.resumed(&fault).await;

    let (id, victim) = long_task(&mut stage, "paused").await;
    let fault = stage.fault(format!("the executor of {victim} stands still"));
    let machine = stage.cluster.machine_mut(&victim);
    machine
        .signal(Process::Service("executor"), Signal::SIGSTOP)
        .await;
    runs_again(&stage, id, "paused").await;
    let machine = stage.cluster.machine_mut(&victim);
    machine
        .signal(Process::Service("executor"), Signal::SIGCONT)
        .await;
    stage.resumed(&fault).await;
    stage.cluster.working(2).await;

    let (id, victim) = long_task(&mut stage, "cut").await;
    let fault = stage.fault(format!("{victim} is cut off"));
    stage.cluster.machine(&victim).host().cut();
    runs_again(&stage, id, "cut").await;
    stage.cluster.machine(&victim).host().heal();
    stage.resumed(&fault).await;
    stage.cluster.working(2).await;
    stage.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_and_proxies_are_killed_and_paused() {
    let mut stage = Stage::busy().await;
    for (name, process) in [
        ("g1", Process::Service("gateway")),
        ("g1", Process::Server("etcd")),
        ("g1", Process::Service("etcd")),
        ("e1", Process::Server("etcd")),
    ] {
        let fault = stage.fault(format!("kill -9 of {process} at {name}"));
        let machine = stage.cluster.machine_mut(name);
        let killed = machine.signal(process, Signal::SIGKILL).await;
        machine.replaced(process, killed).await;
        stage.whole(fault).await;
    }
    let fault = stage.fault("g1 lost its power");
    stage.cluster.machine_mut("g1").kill_all();
    stage.resumed(&fault).await;
    stage.cluster.machine_mut("g1").start();
    stage.whole(fault).await;
    stage.cluster.machine("g1").ready().await;

    let fault = stage.fault("the gateway stands still");
    let machine = stage.cluster.machine_mut("g1");
    machine.signal(Process::Service("gateway"), Signal::SIGSTOP).await;
    tokio::time::sleep(LONGER_THAN_LEASES).await;
    stage.resumed(&fault).await;
    let machine = stage.cluster.machine_mut("g1");
    machine.signal(Process::Service("gateway"), Signal::SIGCONT).await;
    stage.whole(fault).await;
    stage.settle().await;
}
