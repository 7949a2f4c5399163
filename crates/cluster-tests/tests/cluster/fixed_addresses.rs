use cluster_tests::{ClusterProcess, LoadGenerator, RPC, TestCluster};
use nix::sys::signal::Signal;

const JUDICATOR: ClusterProcess = ClusterProcess::Service("judicator");

/// An executor and a gateway with a fixed list of judicators and without etcd survive kills of each judicator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_enough_for_an_executor_and_a_gateway() {
    let mut cluster = TestCluster::of(3).await;
    let addresses: Vec<_> = ["j1", "j2", "j3"]
        .map(|name| cluster.node(name).address_of(RPC))
        .into();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let _executor = cluster.plain_executor("plain", &addresses);
    cluster.wait_for_executors(1).await;
    let load = LoadGenerator::start_low_load(cluster.gateways(), &cluster.history);
    load.wait_for_progress().await;
    for name in ["j1", "j2", "j3"] {
        load.reset_longest_gap();
        let node = cluster.node_mut(name);
        node.signal(JUDICATOR, Signal::SIGKILL).await;
        let resumed = load.wait_for_progress().await;
        cluster.wait_until_complete(3).await;
        println!(
            "kill -9 of {name}: tasks are done after {resumed:?}, no add was acknowledged for at most {:?}",
            load.longest_gap()
        );
    }
    let kept = load.stop_and_verify(cluster.gateways(), &cluster.history).await;
    println!("{kept} tasks");
}
