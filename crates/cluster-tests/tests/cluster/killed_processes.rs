use cluster_tests::ClusterProcess;
use nix::sys::signal::Signal;

use crate::harness::BusyCluster;

/// The role by which a test chooses the node whose processes it kills: leading judicator, or MongoDB primary.
#[derive(Clone, Copy)]
enum VictimRole {
    Leading,
    Primary,
}

/// Kills each process of the node that has the role, one after another. Another node may have the role each time.
async fn each_process_is_killed(role: VictimRole) {
    let mut busy = BusyCluster::start().await;
    for process in ClusterProcess::OF_JUDICATOR {
        let (victim, what) = match role {
            VictimRole::Leading => (busy.cluster.leader().await, "leads"),
            VictimRole::Primary => (busy.cluster.primary().await, "is primary"),
        };
        let fault = busy.fault(format!("kill -9 of {process} at {victim}, which {what}"));
        let node = busy.cluster.node_mut(&victim);
        let killed = node.signal(process, Signal::SIGKILL).await;
        if process == ClusterProcess::Boot {
            // No process survives boot.
            node.wait_until_no_process_runs().await;
            node.start();
        }
        busy.wait_for_progress(&fault).await;
        busy.cluster
            .node(&victim)
            .wait_until_replaced(process, killed)
            .await;
        busy.wait_until_complete(fault).await;
    }
    busy.stop_and_verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_of_the_leading_node_is_killed() {
    each_process_is_killed(VictimRole::Leading).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_of_the_primary_node_is_killed() {
    each_process_is_killed(VictimRole::Primary).await;
}

/// Simulates a power failure of one node and then of all: they come back with the data on their disks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_node_is_killed_and_then_all_of_them() {
    let mut busy = BusyCluster::start().await;
    let victim = busy.cluster.leader().await;
    let fault = busy.fault(format!("{victim} lost power"));
    busy.cluster.node_mut(&victim).kill_all();
    busy.wait_for_progress(&fault).await;
    busy.cluster.node_mut(&victim).start();
    busy.wait_until_complete(fault).await;

    let names = ["j1", "j2", "j3", "e1", "e2", "g1"];
    let fault = busy.fault("all nodes lost power");
    for name in names {
        busy.cluster.node_mut(name).kill_all();
    }
    for name in names {
        busy.cluster.node_mut(name).start();
    }
    busy.wait_for_progress(&fault).await;
    busy.wait_until_complete(fault).await;
    busy.stop_and_verify().await;
}
