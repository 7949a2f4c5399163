//! Nodes that lost their data or were removed never return as the member that they were.

use daemons::etcd::{BootstrapMode, EtcdDaemonError, remove_member};

use crate::harness::{EtcdTestCluster, EtcdTestNode, get, put, sorted_paths};

#[tokio::test]
async fn a_founder_that_lost_its_data_comes_back_as_a_new_member() {
    let cluster = EtcdTestCluster::new();
    let [_one, _two, three] = cluster.start_three_founders().await;
    let before = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    put(&cluster.access(1), "key", "value").await;
    // First without data, then without state files too: with the same options both times, as a service manager would
    // start it.
    let options = three.options.clone();
    three.crash_and_delete_data().await;
    let mut three = EtcdTestNode::start(options.clone());
    three.wait_until_serving().await;
    let between = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    assert_ne!(between[2].id, before[2].id);
    assert_eq!(get(&cluster.access(3), "key").await.as_deref(), Some("value"));

    three.crash_and_delete_folder().await;
    let mut three = EtcdTestNode::start(options);
    three.wait_until_serving().await;
    let after = cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    assert_ne!(after[2].id, between[2].id);
    assert_eq!(
        after[..2].iter().map(|m| m.id).collect::<Vec<_>>(),
        before[..2].iter().map(|m| m.id).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_first_node_that_lost_its_data_founds_no_second_cluster() {
    let cluster = EtcdTestCluster::new();
    let mut node = cluster.start(1, BootstrapMode::First);
    node.wait_until_serving().await;
    node.crash_and_delete_data().await;
    let message = cluster.start(1, BootstrapMode::First).wait_for_failure().await;
    assert!(message.contains("must not found a new cluster"), "{message}");
    assert!(!cluster.data(1).join("data").exists());
}

#[tokio::test]
async fn a_data_folder_of_another_cluster_is_refused_and_nothing_changes() {
    let cluster = EtcdTestCluster::new();
    let mut one = cluster.start(1, BootstrapMode::First);
    one.wait_until_serving().await;
    let mut two = cluster.start(2, BootstrapMode::First);
    two.wait_until_serving().await;
    two.stop().await;
    let before = sorted_paths(&cluster.data(2));
    let message = cluster.start(2, cluster.join(&[1])).wait_for_failure().await;
    assert!(message.contains("belongs to another cluster"), "{message}");
    // The same if only the state files are left.
    std::fs::rename(cluster.data(2).join("data"), cluster.data(3)).unwrap();
    let message = cluster.start(2, cluster.join(&[1])).wait_for_failure().await;
    assert!(message.contains("belongs to another cluster"), "{message}");
    std::fs::rename(cluster.data(3), cluster.data(2).join("data")).unwrap();
    assert_eq!(sorted_paths(&cluster.data(2)), before);
    assert_eq!(cluster.members_when_available(1).await.len(), 1);
}

#[tokio::test]
async fn live_members_are_not_removed_and_a_removed_member_ends_with_an_error() {
    let cluster = EtcdTestCluster::new();
    let [_one, _two, three] = cluster.start_three_founders().await;
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    let access = cluster.access(1);
    let alive = remove_member(&access, "n3").await.unwrap_err();
    assert!(matches!(alive, EtcdDaemonError::Alive { .. }), "{alive}");
    let unknown = remove_member(&access, "n9").await.unwrap_err().to_string();
    assert_eq!(unknown, "no member is called n9; the members are n1, n2, n3");
    assert_eq!(cluster.members_when_available(1).await.len(), 3);

    let options = three.options.clone();
    three.crash().await;
    remove_member(&access, "n3").await.unwrap();
    cluster.wait_until_healthy(1, &[1, 2]).await;
    let message = EtcdTestNode::start(options.clone()).wait_for_failure().await;
    assert!(message.contains("was removed from the cluster"), "{message}");
    // With a new data folder it can join again.
    let mut three = EtcdTestNode::start(daemons::etcd::EtcdMemberOptions {
        data: cluster.data(33),
        bootstrap: cluster.join(&[1]),
        ..options
    });
    three.wait_until_serving().await;
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;
}
