//! A judicator is registered while its process lives.

use std::sync::atomic::Ordering;
use std::time::Duration;

use registry::etcd;
use tokio_util::sync::CancellationToken;

use super::harness::{
    DEADLINE, JudicatorTask, LONG_LEASE, STEADY_LEASE, connect, delete, list, registered, wait_for_addresses,
    wait_for_registered,
};
use super::servers::EtcdCluster;

#[tokio::test]
async fn a_judicator_is_registered_from_start_to_stop() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());

    // The leases do not expire during the test, so a key disappears only by deregistration.
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1 7.0", LONG_LEASE);
    a.wait_until_leading().await;
    let b = JudicatorTask::start(&access, "b@2.2.2.2:2", LONG_LEASE);
    for registry in [&follower, &a.registry, &b.registry] {
        wait_for_addresses(registry, &["1.1.1.1:1", "2.2.2.2:2"]).await;
    }
    assert_eq!(registered(&access).await, ["a@1.1.1.1:1 7.0*", "b@2.2.2.2:2 1"]);
    let since = list(&access).await[0].since;
    assert!(since.elapsed().unwrap().as_secs() < 3600);

    a.stop().await;
    assert!(!registered(&access).await.concat().contains("1.1.1.1"));
    b.wait_until_leading().await;
    wait_for_addresses(&follower, &["2.2.2.2:2"]).await;
    b.stop().await;
    assert_eq!(registered(&access).await, [""; 0]);
    wait_for_addresses(&follower, &[]).await;
    assert!(!*follower.leading.borrow());
}

#[tokio::test]
async fn a_form_that_a_judicator_does_not_know_is_listed() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", STEADY_LEASE);
    a.wait_until_leading().await;
    let listed = async |expected: Option<u32>| {
        let wait = async {
            while list(&access).await[0].newer_form != expected {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap();
    };
    listed(None).await;
    a.newer_form.store(7, Ordering::SeqCst);
    listed(Some(7)).await;
    assert_eq!(
        registered(&access).await,
        ["a@1.1.1.1:1 1*"],
        "nothing else has changed"
    );
    a.stop().await;
}

#[tokio::test]
async fn a_killed_judicator_is_registered_until_its_lease_expires() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let (follower, _task) = etcd::follow(access.clone(), CancellationToken::new());
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", STEADY_LEASE);
    a.wait_until_leading().await;
    wait_for_addresses(&follower, &["1.1.1.1:1"]).await;
    let leading = a.registry.leading.clone();
    a.abort().await;
    assert!(!*leading.borrow());
    assert_eq!(registered(&access).await, ["a@1.1.1.1:1 1*"]);
    wait_for_addresses(&follower, &[]).await;
}

#[tokio::test]
async fn keep_alives_extend_the_lease() {
    const LEASE: Duration = Duration::from_secs(4);
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", LEASE);
    let mut leading = a.registry.leading.clone();
    // A busy machine may cost it the leadership, and then the wait begins again. Without keep-alives it would lose it
    // every time.
    let kept = async {
        loop {
            a.wait_until_leading().await;
            leading.mark_unchanged();
            // Any loss of leadership within the time of two leases shows here.
            let changed = tokio::time::timeout(2 * LEASE, leading.changed()).await;
            if changed.is_err() && *leading.borrow() {
                break;
            }
        }
    };
    tokio::time::timeout(DEADLINE, kept)
        .await
        .expect("the leadership is lost again and again");
    wait_for_registered(&access, &["a@1.1.1.1:1 1*"]).await;
}

#[tokio::test]
async fn a_judicator_registers_again_after_its_keys_or_lease_are_deleted() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", LONG_LEASE);
    a.wait_until_leading().await;
    let key = "/conclave/judicators/a";
    for key in [key, "/conclave/leader"] {
        delete(&access, key).await;
        wait_for_registered(&access, &["a@1.1.1.1:1 1*"]).await;
    }
    // Now another client revokes the lease.
    let mut client = connect(&access).await;
    let kept = client.get(key, None).await.unwrap();
    client.lease_client().revoke(kept.kvs()[0].lease()).await.unwrap();
    wait_for_registered(&access, &["a@1.1.1.1:1 1*"]).await;
    a.wait_until_leading().await;
}
