use cluster_tests::Process;
use nix::sys::signal::Signal;

use crate::stage::Stage;

#[derive(Clone, Copy)]
enum Role {
    Leading,
    Primary,
}

/// Kills each process of the node that has the role, one after the other. The role may be another's by the next.
async fn each_process_is_killed(role: Role) {
    let mut stage = Stage::busy().await;
    for process in Process::OF_JUDICATOR {
        let (victim, what) = match role {
            Role::Leading => (stage.cluster.leader().await, "leads"),
            Role::Primary => (stage.cluster.primary().await, "is primary"),
        };
        let fault = stage.fault(format!("kill -9 of {process} at {victim}, which {what}"));
        let machine = stage.cluster.machine_mut(&victim);
        let killed = machine.signal(process, Signal::SIGKILL).await;
        if process == Process::Boot {
            // Nothing that boot started lives on as a stranger.
            machine.nobody().await;
            machine.start();
        }
        stage.resumed(&fault).await;
        stage.cluster.machine(&victim).replaced(process, killed).await;
        stage.whole(fault).await;
    }
    stage.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_of_the_leading_node_is_killed() {
    each_process_is_killed(Role::Leading).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_of_the_primary_node_is_killed() {
    each_process_is_killed(Role::Primary).await;
}

/// As when the power fails: everything at once, and the node comes back with what is on its disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_node_is_killed_and_then_all_of_them() {
    let mut stage = Stage::busy().await;
    let victim = stage.cluster.leader().await;
    let fault = stage.fault(format!("{victim} lost its power"));
    stage.cluster.machine_mut(&victim).kill_all();
    stage.resumed(&fault).await;
    stage.cluster.machine_mut(&victim).start();
    stage.whole(fault).await;

    let names = ["j1", "j2", "j3", "e1", "e2", "g1"];
    let fault = stage.fault("all lost their power");
    for name in names {
        stage.cluster.machine_mut(name).kill_all();
    }
    for name in names {
        stage.cluster.machine_mut(name).start();
    }
    stage.resumed(&fault).await;
    stage.whole(fault).await;
    stage.settle().await;
}
