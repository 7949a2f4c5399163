//! Nodes found and join clusters without faults.

use std::time::{Duration, Instant};

use daemons::etcd::{BootstrapMode, EtcdMemberOptions, EtcdMemberState, saved_cluster_id, saved_endpoints};

use crate::harness::{EtcdTestCluster, EtcdTestNode, get, ip, put, wait_for_members};

#[tokio::test]
async fn the_first_node_founds_a_cluster_and_continues_after_a_restart() {
    let began = Instant::now();
    let cluster = EtcdTestCluster::new();
    let mut node = cluster.start(1, BootstrapMode::First);
    node.wait_until_serving().await;
    let before = wait_for_members(
        cluster.access(1),
        "one leader that reports its uptime",
        |seen| matches!(seen, [one] if one.state == EtcdMemberState::Leader && one.uptime.is_some()),
    )
    .await;
    assert_eq!(before[0].name, "n1");
    assert_eq!(before[0].peer, cluster.peer(1));
    assert!(before[0].version.starts_with("3."), "{before:?}");
    let uptime = before[0].uptime.expect("the member reports its uptime");
    // The kernel rounds the boot time to seconds, and the start times of processes are relative to it.
    assert!(uptime <= began.elapsed() + Duration::from_secs(1), "{before:?}");
    put(&cluster.access(1), "key", "value").await;
    node.stop().await;

    // The bootstrap options of later starts do not matter.
    for start in [
        BootstrapMode::Unspecified,
        BootstrapMode::First,
        cluster.founders(&[1, 2, 3]),
        cluster.join(&[2]),
    ] {
        let node = cluster.start(1, start);
        let after = cluster.wait_until_healthy(1, &[1]).await;
        assert_eq!(after[0].id, before[0].id);
        assert_eq!(get(&cluster.access(1), "key").await.as_deref(), Some("value"));
        node.stop().await;
    }
}

#[tokio::test]
async fn three_founders_that_start_at_once_form_one_cluster() {
    let cluster = EtcdTestCluster::new();
    let _nodes = cluster.start_three_founders().await;
    let seen = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    for node in [2, 3] {
        let ids: Vec<u64> = cluster
            .members_when_available(node)
            .await
            .iter()
            .map(|member| member.id)
            .collect();
        assert_eq!(ids, seen.iter().map(|member| member.id).collect::<Vec<_>>());
    }
    // Each node has saved the client addresses of all.
    let all: Vec<String> = [1, 2, 3].map(|node| cluster.client(node)).to_vec();
    crate::harness::wait_until("all endpoints are known everywhere", || {
        [1, 2, 3]
            .iter()
            .all(|node| saved_endpoints(&cluster.data(*node)) == all)
    })
    .await;
}

#[tokio::test]
async fn founders_that_found_again_form_another_cluster() {
    let cluster = EtcdTestCluster::new();
    let start = || [1, 2].map(|node| cluster.start(node, cluster.founders(&[1, 2])));
    let mut found = Vec::new();
    for _ in 0..2 {
        let nodes = start();
        let ids: Vec<u64> = cluster
            .wait_until_healthy(1, &[1, 2])
            .await
            .iter()
            .map(|seen| seen.id)
            .collect();
        let clusters = || [1, 2].map(|node| saved_cluster_id(&cluster.data(node)));
        crate::harness::wait_until("both have saved the cluster id", || {
            clusters().iter().all(Option::is_some)
        })
        .await;
        let clusters = clusters();
        assert_eq!(clusters[0], clusters[1]);
        found.push((clusters[0], ids));
        for node in nodes {
            node.crash_and_delete_folder().await;
        }
    }
    assert_ne!(found[0].0, found[1].0);
    assert!(found[0].1.iter().all(|id| !found[1].1.contains(id)), "{found:?}");
}

#[tokio::test]
async fn a_founder_does_not_found_without_the_others() {
    let cluster = EtcdTestCluster::new();
    let mut options = cluster.options(1, cluster.founders(&[1, 2, 3]));
    options.tries = 1;
    let message = EtcdTestNode::start(options).wait_for_failure().await;
    assert!(message.contains(&cluster.peer(2)), "{message}");
    assert!(!cluster.data(1).join("data").exists());
    let _nodes = cluster.start_three_founders().await;
}

#[tokio::test]
async fn nodes_that_join_become_full_members() {
    let cluster = EtcdTestCluster::new();
    let mut first = cluster.start(1, BootstrapMode::First);
    first.wait_until_serving().await;
    // Both at once: etcd allows one learner at a time, so one node waits for the other.
    let mut second = cluster.start(2, cluster.join(&[1]));
    let mut third = cluster.start(3, cluster.join(&[1, 2]));
    second.wait_until_serving().await;
    third.wait_until_serving().await;
    cluster.wait_until_healthy(3, &[1, 2, 3]).await;
    put(&cluster.access(3), "key", "value").await;
    assert_eq!(get(&cluster.access(2), "key").await.as_deref(), Some("value"));
    // A node that is stopped stays a member.
    let before = cluster.members_when_available(1).await;
    let options = second.options.clone();
    second.stop().await;
    assert_eq!(cluster.members_when_available(1).await.len(), 3);
    let _second = EtcdTestNode::start(options);
    let after = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    assert_eq!(after[1].id, before[1].id);
}

#[tokio::test]
async fn a_member_with_a_new_address_updates_the_member_list() {
    let cluster = EtcdTestCluster::new();
    let [_one, _two, three] = cluster.start_three_founders().await;
    let before = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    let options = three.options.clone();
    three.stop().await;
    let mut three = EtcdTestNode::start(EtcdMemberOptions {
        host: ip(13).to_string(),
        bootstrap: BootstrapMode::Unspecified,
        ..options
    });
    three.wait_until_serving().await;
    let after = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    assert_eq!(after[2].id, before[2].id);
    assert_eq!(
        (&after[2].peer, &after[2].client),
        (&cluster.peer(13), &cluster.client(13))
    );
}
