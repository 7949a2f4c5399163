//! Failures of etcd members and of the whole cluster.

use std::time::{Duration, Instant};

use registry::etcd;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::harness::{
    JudicatorTask, LeaderMonitor, SHORT_LEASE, delete, wait_for_addresses, wait_for_registered,
    wait_until_registered,
};
use super::servers::{EtcdCluster, access_to};

/// Polls `leading` until it is false, and returns when it was last true. The thread notes the time *before* each poll, so
/// that its own delay does not count against the judicator. The very last poll does not count either: after a pause of
/// the whole process it may run before the thread that ends the leadership.
fn time_of_last_leading(leading: watch::Receiver<bool>) -> std::thread::JoinHandle<Instant> {
    std::thread::spawn(move || {
        let mut polls = [Instant::now(); 2];
        loop {
            let now = Instant::now();
            if !*leading.borrow() {
                return polls[0];
            }
            polls = [polls[1], now];
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_leading_before_its_lease_expires() {
    const LEASE: Duration = Duration::from_secs(6);
    let mut cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", LEASE);
    a.wait_until_leading().await;
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", LEASE);
    for registry in [&a.registry, &b.registry] {
        wait_for_addresses(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }
    let monitor = LeaderMonitor::start(&[&a, &b]);

    let led = time_of_last_leading(a.registry.leading.clone());
    cluster.first().pause();
    // The judicator sent its last keep-alive before this moment.
    let last = Instant::now();
    a.wait_until_not_leading().await;
    let led = led.join().unwrap();
    assert!(led < last + LEASE, "led for longer than its lease");
    tokio::time::sleep_until((last + LEASE + SHORT_LEASE).into()).await;
    // Only etcd was away, so the judicators stay listed.
    wait_for_addresses(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;

    cluster.first().resume();
    futures::future::select(Box::pin(a.wait_until_leading()), Box::pin(b.wait_until_leading())).await;
    wait_for_addresses(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    monitor.assert_never_two_leaders();
}

#[tokio::test]
async fn judicators_register_again_after_etcd_restarts() {
    let mut cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
    cluster.first().kill();
    a.wait_until_not_leading().await;
    assert_eq!(*follower.judicators.borrow(), ["1.1.1.1:1"]);
    cluster.first().restart();
    a.wait_until_leading().await;
    let _b = JudicatorTask::start(&access, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
}

#[tokio::test]
async fn registrations_survive_the_death_of_the_etcd_leader() {
    let mut cluster = EtcdCluster::start(3).await;
    let access = cluster.access();
    let leader = cluster.leader().await;
    // All clients try the etcd leader first.
    let mut endpoints = access.endpoints.clone();
    endpoints.rotate_left(leader);
    let access = access.with_endpoints(endpoints);
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    let monitor = LeaderMonitor::start(&[&a, &b]);
    cluster.members[leader].kill();
    let c = JudicatorTask::start(&access, "c@3.3.3.3:3", SHORT_LEASE);
    for registry in [&follower, &a.registry, &b.registry, &c.registry] {
        wait_for_addresses(registry, &["1.1.1.1:1", "2.2.2.2:2", "3.3.3.3:3"]).await;
    }
    a.stop().await;
    b.stop().await;
    c.wait_until_leading().await;
    monitor.assert_never_two_leaders();
}

#[tokio::test]
async fn a_judicator_reaches_other_members_when_its_only_configured_one_hangs() {
    let cluster = EtcdCluster::start(3).await;
    let access = cluster.access();
    let configured = &cluster.members[0];
    let a = JudicatorTask::start(&access_to(configured), "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    let others = access.with_endpoints(access.endpoints[1..].to_vec());
    // `a` lists the etcd members after its first read and after its first round. That it sees these changes and reacts to
    // the deleted leader key proves that both have happened.
    let b = JudicatorTask::start(&others, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    b.stop().await;
    wait_for_addresses(&a.registry, &["1.1.1.1:1"]).await;
    delete(&others, "/conclave/leader").await;
    wait_for_registered(&others, &["a@1.1.1.1:1 1*"]).await;

    configured.pause();
    let b = JudicatorTask::start(&others, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&a.registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    wait_until_registered(&access, "both", |registered| registered.len() == 2).await;
    b.stop().await;
    a.wait_until_leading().await;
}

#[tokio::test]
async fn a_member_without_quorum_is_skipped() {
    let mut cut_off = EtcdCluster::start(2).await;
    cut_off.members[1].kill();
    let cluster = EtcdCluster::start(1).await;
    let lost = cut_off.members[0].endpoint.clone();
    let both = cluster
        .access()
        .with_endpoints(vec![lost, cluster.members[0].endpoint.clone()]);
    let (follower, _task) = etcd::follow(both.clone(), CancellationToken::new());
    let a = JudicatorTask::start(&both, "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
    wait_for_registered(&both, &["a@1.1.1.1:1 1*"]).await;
}
