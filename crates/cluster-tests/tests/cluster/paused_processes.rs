use cluster_tests::ClusterProcess;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{BusyCluster, LONGER_THAN_LEASES};

/// Stops each process of the leader or primary for longer than all leases, and then lets it continue, if it was not replaced.
async fn each_process_is_paused(processes: &[ClusterProcess]) {
    let mut busy = BusyCluster::start().await;
    for process in processes {
        let victim = match process {
            ClusterProcess::Server("mongodb") | ClusterProcess::Service("mongodb") => {
                busy.cluster.primary().await
            }
            _ => busy.cluster.leader().await,
        };
        let fault = busy.fault(format!("{process} at {victim} is paused"));
        let node = busy.cluster.node_mut(&victim);
        let paused = node.signal(*process, Signal::SIGSTOP).await;
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        busy.wait_for_progress(&fault).await;
        let _ = kill(Pid::from_raw(paused), Signal::SIGCONT);
        busy.cluster.node(&victim).wait_until_ready().await;
        busy.wait_until_complete(fault).await;
    }
    busy.stop_and_verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_conclave_process_is_paused() {
    each_process_is_paused(&[
        ClusterProcess::Service("judicator"),
        ClusterProcess::Service("mongodb"),
        ClusterProcess::Service("etcd"),
        ClusterProcess::Boot,
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_and_mongod_are_paused() {
    each_process_is_paused(&[ClusterProcess::Server("mongodb"), ClusterProcess::Server("etcd")]).await;
}

/// Simulates a paused virtual machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_node_is_paused() {
    let busy = BusyCluster::start().await;
    for role in ["leads", "is primary"] {
        let victim = match role {
            "leads" => busy.cluster.leader().await,
            _ => busy.cluster.primary().await,
        };
        let fault = busy.fault(format!("{victim}, which {role}, is paused"));
        let host = busy.cluster.node(&victim).host();
        let paused = host.processes();
        let signal = |signal: Signal| {
            for pid in &paused {
                let _ = kill(Pid::from_raw(*pid), signal);
            }
        };
        signal(Signal::SIGSTOP);
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        busy.wait_for_progress(&fault).await;
        signal(Signal::SIGCONT);
        busy.wait_until_complete(fault).await;
    }
    busy.stop_and_verify().await;
}
