//! One leads, and never two.

use std::time::Duration;

use super::servers::{Cluster, at_one};
use super::stage::{Judicator, Lookout, SHORT, STEADY, becomes, sees, wait};

#[tokio::test]
async fn the_lead_moves_when_the_leader_vanishes() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let mut judicators: Vec<_> = ["a@1.1.1.1:1", "b@2.2.2.2:2", "c@3.3.3.3:3"]
        .iter()
        .map(|who| Judicator::start(&access, who, SHORT))
        .collect();
    let lookout = Lookout::over(&judicators.iter().collect::<Vec<_>>());
    while !judicators.is_empty() {
        let leader = leader(&judicators).await;
        judicators.swap_remove(leader).vanish().await;
    }
    lookout.saw_no_two();
}

#[tokio::test]
async fn the_lead_moves_when_the_leader_stops() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let mut judicators: Vec<_> = ["a@1.1.1.1:1", "b@2.2.2.2:2", "c@3.3.3.3:3"]
        .iter()
        .map(|who| Judicator::start(&access, who, STEADY))
        .collect();
    let lookout = Lookout::over(&judicators.iter().collect::<Vec<_>>());
    while !judicators.is_empty() {
        let leader = leader(&judicators).await;
        judicators.swap_remove(leader).stop().await;
    }
    lookout.saw_no_two();
}

#[tokio::test]
async fn the_lead_moves_when_the_leader_is_cut_off() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    // Long enough for the end of the reign to come well before that of the lease, however late a thread wakes up.
    const LEASE: Duration = Duration::from_secs(6);
    // The one way to etcd that it has is a proxy, which hangs.
    let proxy = cluster.proxy().await;
    let a = Judicator::start(&at_one(&proxy), "a@1.1.1.1:1", LEASE);
    a.leads().await;
    let b = Judicator::start(&access, "b@2.2.2.2:2", LEASE);
    sees(&b.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    let lookout = Lookout::over(&[&a, &b]);
    proxy.pause();
    b.leads().await;
    becomes(&access, &["b@2.2.2.2:2 1*"]).await;
    proxy.resume();
    becomes(&access, &["a@1.1.1.1:1 1", "b@2.2.2.2:2 1*"]).await;
    lookout.saw_no_two();
}

/// Waits until one leads.
async fn leader(judicators: &[Judicator]) -> usize {
    let each = judicators.iter().map(|judicator| {
        Box::pin(async move { wait(&judicator.registry.leading, "leading", |leads| *leads).await })
    });
    futures::future::select_all(each).await.1
}
