use cluster_tests::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{LONGER_THAN_LEASES, Stage};

/// Those that lead, one by one, stand still for longer than all leases; then they go on, if nobody has ended them
/// meanwhile, and believe for a moment that nothing has happened.
async fn each_process_is_paused(processes: &[Process]) {
    let mut stage = Stage::busy().await;
    for process in processes {
        let victim = match process {
            Process::Server("mongodb") | Process::Service("mongodb") => stage.cluster.primary().await,
            _ => stage.cluster.leader().await,
        };
        let fault = stage.fault(format!("{process} at {victim} stands still"));
        let machine = stage.cluster.machine_mut(&victim);
        let paused = machine.signal(*process, Signal::SIGSTOP).await;
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        stage.resumed(&fault).await;
        let _ = kill(Pid::from_raw(paused), Signal::SIGCONT);
        stage.cluster.machine(&victim).ready().await;
        stage.whole(fault).await;
    }
    stage.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_process_of_ours_stands_still() {
    each_process_is_paused(&[
        Process::Service("judicator"),
        Process::Service("mongodb"),
        Process::Service("etcd"),
        Process::Boot,
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_stands_still() {
    each_process_is_paused(&[Process::Server("mongodb"), Process::Server("etcd")]).await;
}

/// As when its virtual machine is paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_node_stands_still() {
    let stage = Stage::busy().await;
    for role in ["leads", "is primary"] {
        let victim = match role {
            "leads" => stage.cluster.leader().await,
            _ => stage.cluster.primary().await,
        };
        let fault = stage.fault(format!("{victim}, which {role}, stands still"));
        let host = stage.cluster.machine(&victim).host();
        let paused = host.processes();
        let signal = |signal: Signal| {
            for pid in &paused {
                let _ = kill(Pid::from_raw(*pid), signal);
            }
        };
        signal(Signal::SIGSTOP);
        tokio::time::sleep(LONGER_THAN_LEASES).await;
        stage.resumed(&fault).await;
        signal(Signal::SIGCONT);
        stage.whole(fault).await;
    }
    stage.settle().await;
}
