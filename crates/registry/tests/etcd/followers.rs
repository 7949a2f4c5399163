//! Executors and gateways follow the registrations through a proxy.

use std::time::Duration;

use registry::etcd;
use tokio_util::sync::CancellationToken;

use super::harness::{JudicatorTask, SHORT_LEASE, STEADY_LEASE, wait_for_addresses};
use super::servers::{EtcdCluster, access_to};

/// The time limit covers all changes. A follower that only reads the list from time to time would exceed it.
#[tokio::test]
async fn followers_see_changes_at_once() {
    const LIMIT: Duration = Duration::from_secs(30);
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let proxy = cluster.proxy().await;
    let (follower, _task) = etcd::follow(access_to(&proxy), CancellationToken::new());
    let changes = async {
        for _ in 0..5 {
            let a = JudicatorTask::start(&access, "a@1.1.1.1:1", STEADY_LEASE);
            wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
            a.stop().await;
            wait_for_addresses(&follower, &[]).await;
        }
    };
    tokio::time::timeout(LIMIT, changes)
        .await
        .expect("the changes are seen too late");
}

#[tokio::test]
async fn a_follower_keeps_its_list_while_the_proxy_restarts() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let mut proxy = cluster.proxy().await;
    let (follower, _task) = etcd::follow(access_to(&proxy), CancellationToken::new());
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    b.stop().await;
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;

    proxy.kill();
    let c = JudicatorTask::start(&access, "c@3.3.3.3:3", SHORT_LEASE);
    wait_for_addresses(&c.registry, &["1.1.1.1:1", "3.3.3.3:3"]).await;
    a.stop().await;
    wait_for_addresses(&c.registry, &["3.3.3.3:3"]).await;
    // The follower gets no events meanwhile, and keeps its list.
    assert_eq!(*follower.judicators.borrow(), ["1.1.1.1:1"]);
    proxy.restart();
    wait_for_addresses(&follower, &["3.3.3.3:3"]).await;
    // The address of a name changes.
    c.stop().await;
    let _c = JudicatorTask::start(&access, "c@4.4.4.4:4", SHORT_LEASE);
    wait_for_addresses(&follower, &["4.4.4.4:4"]).await;
}

#[tokio::test]
async fn a_follower_moves_to_another_proxy_when_one_hangs() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let (one, other) = (cluster.proxy().await, cluster.proxy().await);
    let proxies = access.with_endpoints(vec![one.endpoint.clone(), other.endpoint.clone()]);
    let (follower, _task) = etcd::follow(proxies, CancellationToken::new());
    let _a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
    one.pause();
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&follower, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    // Now the other proxy hangs, whichever of the two was in use.
    one.resume();
    other.pause();
    b.stop().await;
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
}
