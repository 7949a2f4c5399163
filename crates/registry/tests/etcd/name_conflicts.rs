//! Two judicators with the same name.

use std::time::Duration;

use registry::etcd::EtcdAccess;

use super::harness::{
    JudicatorTask, LONG_LEASE, SHORT_LEASE, STEADY_LEASE, connect, registered, wait_for_addresses,
    wait_for_registered,
};
use super::servers::EtcdCluster;

/// Checks for longer than several rounds of the shortest lease take.
async fn assert_stays_registered(access: &EtcdAccess, expected: &[&str]) {
    let end = tokio::time::Instant::now() + SHORT_LEASE;
    while tokio::time::Instant::now() < end {
        assert_eq!(registered(access).await, expected);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_second_judicator_registers_when_the_first_is_gone() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let first = JudicatorTask::start(&access, "a@1.1.1.1:1", STEADY_LEASE);
    first.wait_until_leading().await;
    let second = JudicatorTask::start(&access, "a@2.2.2.2:2", SHORT_LEASE);
    wait_for_addresses(&second.registry, &["1.1.1.1:1"]).await;
    assert_stays_registered(&access, &["a@1.1.1.1:1 1*"]).await;
    assert!(!*second.registry.leading.borrow());
    first.stop().await;
    wait_for_registered(&access, &["a@2.2.2.2:2 1*"]).await;
    second.wait_until_leading().await;
}

#[tokio::test]
async fn a_restarted_judicator_takes_over_its_key_at_once() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let first = JudicatorTask::start(&access, "a@1.1.1.1:1 1", LONG_LEASE);
    first.wait_until_leading().await;
    first.abort().await;
    let second = JudicatorTask::start(&access, "a@1.1.1.1:1 2", SHORT_LEASE);
    second.wait_until_leading().await;
    wait_for_registered(&access, &["a@1.1.1.1:1 2*"]).await;
    // The keys are no longer bound to the earlier lease.
    second.abort().await;
    wait_for_registered(&access, &[]).await;
}

#[tokio::test]
async fn two_processes_with_one_configuration_do_not_take_the_key_in_turns() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let first = JudicatorTask::start(&access, "a@1.1.1.1:1 1", SHORT_LEASE);
    first.wait_until_leading().await;
    let second = JudicatorTask::start(&access, "a@1.1.1.1:1 2", STEADY_LEASE);
    second.wait_until_leading().await;
    first.wait_until_not_leading().await;
    assert_stays_registered(&access, &["a@1.1.1.1:1 2*"]).await;
    second.abort().await;
    wait_for_registered(&access, &["a@1.1.1.1:1 1*"]).await;
}

#[tokio::test]
async fn an_unreadable_registration_is_ignored() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let mut client = connect(&access).await;
    for (name, value) in [("odd", "{"), ("a", "what?")] {
        let key = format!("/conclave/judicators/{name}");
        client.put(key, value, None).await.unwrap();
    }
    // A judicator can register over it.
    let a = JudicatorTask::start(&access, "a@1.1.1.1:1", SHORT_LEASE);
    a.wait_until_leading().await;
    wait_for_addresses(&a.registry, &["1.1.1.1:1"]).await;
    wait_for_registered(&access, &["a@1.1.1.1:1 1*"]).await;
}
