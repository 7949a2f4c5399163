use cluster_tests::{Cluster, Load, Process, RPC};
use nix::sys::signal::Signal;

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
        machine
            .signal(Process::Service("judicator"), Signal::SIGKILL)
            .await;
        let t = std::time::Instant::now();
        load.resumed().await;
        println!("resumed after {:?}", t.elapsed());
        cluster.whole(3).await;
        println!("whole after {:?}", t.elapsed());
        println!(
            "kill -9 of {name}: adds stood still for {:?} at most",
            load.silence()
        );
    }
    println!("EXECUTOR {}", _executor.log());
    println!("OBSERVER {}", std::fs::read_to_string(cluster.folder().join("observer.log")).unwrap());
    for name in ["j1", "j2", "j3"] { println!("{name} {}", cluster.machine(name).log("judicator")); }
    let t = std::time::Instant::now();
    let kept = load.settle(cluster.gateways(), &cluster.history).await;
    println!("{kept} tasks {:?}", t.elapsed());
}
