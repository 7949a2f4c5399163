use cluster_tests::{Cluster, Load, Process, RPC};
use nix::sys::signal::Signal;

const JUDICATOR: Process = Process::Service("judicator");

/// An executor and a gateway that were given addresses and know nothing of etcd; judicators go from under them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_enough_for_an_executor_and_a_gateway() {
    let mut cluster = Cluster::of(3).await;
    let addresses: Vec<_> = ["j1", "j2", "j3"]
        .map(|name| cluster.machine(name).at(RPC))
        .into();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let _executor = cluster.plain_executor("plain", &addresses);
    cluster.working(1).await;
    let load = Load::gentle(cluster.gateways(), &cluster.history);
    load.resumed().await;
    for name in ["j1", "j2", "j3"] {
        load.watch();
        let machine = cluster.machine_mut(name);
        machine.signal(JUDICATOR, Signal::SIGKILL).await;
        let resumed = load.resumed().await;
        cluster.whole(3).await;
        println!(
            "kill -9 of {name}: tasks are done after {resumed:?}, adds stood still for {:?} at most",
            load.silence()
        );
    }
    let kept = load.settle(cluster.gateways(), &cluster.history).await;
    println!("{kept} tasks");
}
