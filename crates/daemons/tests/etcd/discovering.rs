//! Nodes that find each other behind a DNS name.

use daemons::etcd::Options;

use crate::stage::{Dns, Node, Stage, wait_until};

#[tokio::test]
async fn as_many_as_expected_found_and_later_ones_join() {
    let stage = Stage::new();
    stage.dns.set(&[1]);
    let mut nodes = [3, 1, 2].map(|node| stage.start(node, stage.discover(Some(3))));
    stage.dns.set(&[1, 3]);
    stage.dns.set(&[1, 2, 3]);
    for node in &mut nodes {
        node.serves().await;
    }
    stage.all_well(1, &[1, 2, 3]).await;

    stage.dns.set(&[4, 1, 2, 3]);
    let mut fourth = stage.start(4, stage.discover(Some(3)));
    fourth.serves().await;
    stage.all_well(4, &[1, 2, 3, 4]).await;
    stage.dns.set(&[1, 2, 3, 4, 5]);
    let mut fifth = stage.start(5, stage.discover(None));
    fifth.serves().await;
    stage.all_well(1, &[1, 2, 3, 4, 5]).await;
}

#[tokio::test]
async fn four_that_see_different_lists_still_make_one_cluster() {
    let stage = Stage::new();
    let (low, high) = (Dns::default(), Dns::default());
    low.set(&[1, 2, 3]);
    high.set(&[2, 3, 4]);
    let seen_by = |node: u8, dns: &Dns| Options {
        resolver: dns.resolver(),
        ..stage.options(node, stage.discover(Some(3)))
    };
    let mut nodes = [
        Node::start(seen_by(1, &low)),
        Node::start(seen_by(2, &low)),
        Node::start(seen_by(3, &high)),
        Node::start(seen_by(4, &high)),
    ];
    // Long enough for each to have shown its list to the others, again and again.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for node in [1, 2, 3, 4] {
        assert!(!stage.data(node).join("data").exists(), "n{node} founded alone");
    }
    for dns in [&high, &low] {
        dns.set(&[1, 2, 3, 4]);
    }
    for node in &mut nodes {
        node.serves().await;
    }
    stage.all_well(1, &[1, 2, 3, 4]).await;
}

#[tokio::test]
async fn a_node_takes_the_address_that_dns_has_for_it() {
    let stage = Stage::new();
    stage.dns.set(&[7]);
    // As in a container: nobody told it its address.
    let options = stage.options(1, stage.discover(Some(1)));
    let node = Node::start(options.clone());
    let client = stage.client(7);
    wait_until("it serves at the address seen", || {
        daemons::etcd::known_endpoints(&stage.data(1)) == [client.clone()]
    })
    .await;
    // Its own services find it where they were told to.
    let through_own = stage.members(1).await;
    assert_eq!(through_own[0].peer, stage.peer(7));
    node.stop().await;
    // It stays there, even if DNS knows it no more.
    stage.dns.set(&[]);
    let _node = Node::start(options);
    wait_until("it serves again", || {
        std::net::TcpStream::connect(&client).is_ok()
    })
    .await;
}
