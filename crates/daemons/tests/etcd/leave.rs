//! Nodes leave the cluster for good.

use daemons::etcd::{BootstrapMode, EtcdDaemonError, LeaveClusterResult, leave};

use crate::harness::{EtcdTestCluster, EtcdTestNode};

#[tokio::test]
async fn all_nodes_but_the_last_can_leave() {
    let cluster = EtcdTestCluster::new();
    let [one, two, three] = cluster.start_three_founders().await;
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    crate::harness::wait_until("all endpoints are known", || {
        [1, 2, 3]
            .iter()
            .all(|node| daemons::etcd::saved_endpoints(&cluster.data(*node)).len() == 3)
    })
    .await;

    // A node that is stopped before it leaves.
    let options = three.options.clone();
    three.stop().await;
    assert_eq!(leave(&options).await.unwrap(), LeaveClusterResult::Left);
    assert_eq!(leave(&options).await.unwrap(), LeaveClusterResult::AlreadyLeft);
    cluster.wait_until_healthy(1, &[1, 2]).await;
    let message = EtcdTestNode::start(options).wait_for_failure().await;
    assert!(
        message.starts_with("this node left the cluster for good"),
        "{message}"
    );

    // In a cluster of two, a stopped node cannot leave: the other one alone is no majority.
    let options = two.options.clone();
    two.stop().await;
    let refused = leave(&options).await.unwrap_err();
    assert!(
        matches!(
            refused,
            EtcdDaemonError::NoOtherMember { .. } | EtcdDaemonError::QuorumLost { .. }
        ),
        "{refused}"
    );
    let two = EtcdTestNode::start(options.clone());
    cluster.wait_until_healthy(1, &[1, 2]).await;
    // While it runs it can leave, and its etcd ends.
    assert_eq!(leave(&options).await.unwrap(), LeaveClusterResult::Left);
    let message = two.wait_for_failure().await;
    assert!(
        message.contains("left the cluster") || message.contains("was removed"),
        "{message}"
    );
    cluster.wait_until_healthy(1, &[1]).await;

    assert_eq!(leave(&one.options).await.unwrap(), LeaveClusterResult::LastMember);
    assert!(one.is_running());
    let options = one.options.clone();
    one.stop().await;
    let _one = EtcdTestNode::start(options);
    cluster.wait_until_healthy(1, &[1]).await;
}

#[tokio::test]
async fn a_node_cannot_leave_if_the_others_would_lose_their_majority() {
    let cluster = EtcdTestCluster::new();
    let [one, _two, three] = cluster.start_three_founders().await;
    cluster.wait_until_healthy(1, &[1, 2, 3]).await;
    crate::harness::wait_until("all endpoints are known", || {
        daemons::etcd::saved_endpoints(&cluster.data(1)).len() == 3
    })
    .await;
    three.crash().await;
    let refused = leave(&one.options).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "without n1 only 1 of 2 members could be reached, and the cluster would lose its majority; \
         first bring back or remove n3"
    );
    assert_eq!(cluster.members_when_available(1).await.len(), 3);
}

#[tokio::test]
async fn a_node_that_never_joined_has_nothing_to_leave() {
    let cluster = EtcdTestCluster::new();
    let error = leave(&cluster.options(1, BootstrapMode::Unspecified))
        .await
        .unwrap_err();
    assert!(matches!(error, EtcdDaemonError::NothingToLeave));
}
