//! Nodes find each other by a DNS name.

use daemons::etcd::EtcdMemberOptions;

use crate::harness::{EtcdTestCluster, EtcdTestNode, FakeDns, wait_until};

#[tokio::test]
async fn the_expected_number_of_nodes_founds_and_later_nodes_join() {
    let cluster = EtcdTestCluster::new();
    cluster.dns.set(&[1]);
    let mut nodes = [3, 1, 2].map(|node| cluster.start(node, cluster.discover(Some(3))));
    cluster.dns.set(&[1, 3]);
    cluster.dns.set(&[1, 2, 3]);
    for node in &mut nodes {
        node.wait_until_serving().await;
    }
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;

    cluster.dns.set(&[4, 1, 2, 3]);
    let mut fourth = cluster.start(4, cluster.discover(Some(3)));
    fourth.wait_until_serving().await;
    cluster.wait_until_healthy(4, &[1, 2, 3, 4]).await;
    cluster.dns.set(&[1, 2, 3, 4, 5]);
    let mut fifth = cluster.start(5, cluster.discover(None));
    fifth.wait_until_serving().await;
    cluster.wait_until_healthy(1, &[1, 2, 3, 4, 5]).await;
}

#[tokio::test]
async fn four_nodes_with_different_dns_results_form_one_cluster() {
    let cluster = EtcdTestCluster::new();
    let (low, high) = (FakeDns::default(), FakeDns::default());
    low.set(&[1, 2, 3]);
    high.set(&[2, 3, 4]);
    let seen_by = |node: u8, dns: &FakeDns| EtcdMemberOptions {
        resolver: dns.resolver(),
        ..cluster.options(node, cluster.discover(Some(3)))
    };
    let mut nodes = [
        EtcdTestNode::start(seen_by(1, &low)),
        EtcdTestNode::start(seen_by(2, &low)),
        EtcdTestNode::start(seen_by(3, &high)),
        EtcdTestNode::start(seen_by(4, &high)),
    ];
    // Long enough for each node to show its proposal to the others many times.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for node in [1, 2, 3, 4] {
        assert!(!cluster.data(node).join("data").exists(), "n{node} founded alone");
    }
    for dns in [&high, &low] {
        dns.set(&[1, 2, 3, 4]);
    }
    for node in &mut nodes {
        node.wait_until_serving().await;
    }
    cluster.wait_until_healthy(1, &[1, 2, 3, 4]).await;
}

#[tokio::test]
async fn a_node_takes_the_address_that_dns_has_for_it() {
    let cluster = EtcdTestCluster::new();
    cluster.dns.set(&[7]);
    // As in a container: the configured address is not the one that DNS has.
    let options = cluster.options(1, cluster.discover(Some(1)));
    let node = EtcdTestNode::start(options.clone());
    let client = cluster.client(7);
    wait_until("it serves at the address seen", || {
        daemons::etcd::saved_endpoints(&cluster.data(1)) == [client.clone()]
    })
    .await;
    // The node's own services connect to the configured address.
    let through_own = cluster.members_when_available(1).await;
    assert_eq!(through_own[0].peer, cluster.peer(7));
    node.stop().await;
    // It keeps that address, even if DNS no longer has it.
    cluster.dns.set(&[]);
    let _node = EtcdTestNode::start(options);
    wait_until("it serves again", || {
        std::net::TcpStream::connect(&client).is_ok()
    })
    .await;
}
