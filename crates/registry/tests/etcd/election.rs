//! Leader election: one judicator leads, never two.

use std::time::Duration;

use super::harness::{
    JudicatorTask, LeaderMonitor, SHORT_LEASE, STEADY_LEASE, wait_for_addresses, wait_for_registered,
    wait_until,
};
use super::servers::{EtcdCluster, access_to};

#[tokio::test]
async fn another_judicator_leads_after_the_leader_is_killed() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let mut judicators: Vec<_> = ["a@1.1.1.1:1", "b@2.2.2.2:2", "c@3.3.3.3:3"]
        .iter()
        .map(|who| JudicatorTask::start(&access, who, SHORT_LEASE))
        .collect();
    let monitor = LeaderMonitor::start(&judicators.iter().collect::<Vec<_>>());
    while !judicators.is_empty() {
        let leader = leader(&judicators).await;
        judicators.swap_remove(leader).abort().await;
    }
    monitor.assert_never_two_leaders();
}

#[tokio::test]
async fn another_judicator_leads_after_the_leader_stops() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let mut judicators: Vec<_> = ["a@1.1.1.1:1", "b@2.2.2.2:2", "c@3.3.3.3:3"]
        .iter()
        .map(|who| JudicatorTask::start(&access, who, STEADY_LEASE))
        .collect();
    let monitor = LeaderMonitor::start(&judicators.iter().collect::<Vec<_>>());
    while !judicators.is_empty() {
        let leader = leader(&judicators).await;
        judicators.swap_remove(leader).stop().await;
    }
    monitor.assert_never_two_leaders();
}

#[tokio::test]
async fn another_judicator_leads_after_the_leader_loses_etcd() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    // Long enough for the leadership to end well before the lease expires, even if a thread wakes up late.
    const LEASE: Duration = Duration::from_secs(6);
    // Its only endpoint is a proxy, which hangs.
    let proxy = cluster.proxy().await;
    let a = JudicatorTask::start(&access_to(&proxy), "a@1.1.1.1:1", LEASE);
    a.wait_until_leading().await;
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", LEASE);
    wait_for_addresses(&b.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    let monitor = LeaderMonitor::start(&[&a, &b]);
    proxy.pause();
    b.wait_until_leading().await;
    wait_for_registered(&access, &["b@2.2.2.2:2 1*"]).await;
    proxy.resume();
    wait_for_registered(&access, &["a@1.1.1.1:1 1", "b@2.2.2.2:2 1*"]).await;
    monitor.assert_never_two_leaders();
}

/// Waits until one judicator leads, and returns its index.
async fn leader(judicators: &[JudicatorTask]) -> usize {
    let each = judicators.iter().map(|judicator| {
        Box::pin(async move { wait_until(&judicator.registry.leading, "leading", |leads| *leads).await })
    });
    futures::future::select_all(each).await.1
}
