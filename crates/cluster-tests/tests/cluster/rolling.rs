use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Judicator;

use crate::stage::Stage;

/// Looks at the members all the time; none may be missing on any list.
fn watch_members(client: api::Client, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<usize> {
    tokio::spawn(async move {
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) {
            if let Ok(judicators) = client.judicators().await {
                for part in [
                    |judicator: &Judicator| judicator.etcd.is_some(),
                    |judicator: &Judicator| judicator.mongodb.is_some(),
                ] {
                    let mut members: Vec<_> = judicators
                        .iter()
                        .filter(|judicator| part(judicator))
                        .map(|judicator| judicator.name.as_str())
                        .collect();
                    members.sort_unstable();
                    // None at all: nobody could be asked just then.
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
    let mut stage = Stage::busy().await;
    let stop = Arc::new(AtomicBool::new(false));
    let watch = watch_members(stage.cluster.client(), stop.clone());
    for name in ["j1", "j2", "j3", "e1", "e2", "g1"] {
        let fault = stage.fault(format!("{name} is restarted"));
        let machine = stage.cluster.machine_mut(name);
        machine.stop(&[]).await;
        machine.start();
        machine.ready().await;
        stage.whole(fault).await;
    }
    stop.store(true, Ordering::Relaxed);
    let looks = watch.await.unwrap();
    assert!(looks > 0);
    println!("looked at the members {looks} times");
    stage.settle().await;
}
