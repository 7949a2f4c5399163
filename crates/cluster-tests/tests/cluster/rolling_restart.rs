use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::JudicatorState;

use crate::harness::BusyCluster;

/// Lists the members continuously, and asserts that none is missing.
fn watch_members(client: api::HttpClient, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) {
            if let Ok(judicators) = client.judicators().await {
                for part in [
                    |judicator: &JudicatorState| judicator.etcd.is_some(),
                    |judicator: &JudicatorState| judicator.mongodb.is_some(),
                ] {
                    let mut members: Vec<_> = judicators
                        .iter()
                        .filter(|judicator| part(judicator))
                        .map(|judicator| judicator.name.as_str())
                        .collect();
                    members.sort_unstable();
                    // An empty list means that no member could be asked.
                    if !members.is_empty() {
                        assert_eq!(members, ["j1", "j2", "j3"], "{judicators:?}");
                        looks += 1;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        looks
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_is_restarted_and_the_cluster_never_shrinks() {
    let mut busy = BusyCluster::start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let watch = watch_members(busy.cluster.client(), stop.clone());
    for name in ["j1", "j2", "j3", "e1", "e2", "g1"] {
        let fault = busy.fault(format!("{name} is restarted"));
        let node = busy.cluster.node_mut(name);
        node.stop(&[]).await;
        node.start();
        node.wait_until_ready().await;
        busy.wait_until_complete(fault).await;
    }
    stop.store(true, Ordering::Relaxed);
    let looks = watch.await.unwrap();
    assert!(looks > 0);
    println!("listed the members {looks} times");
    busy.stop_and_verify().await;
}
