//! Leaving for good.

use daemons::etcd::{Departure, EtcdError, Start, leave};

use crate::stage::{Node, Stage};

#[tokio::test]
async fn nodes_leave_until_one_is_left() {
    let stage = Stage::new();
    let [one, two, three] = stage.three().await;
    stage.all_well(1, &[1, 2, 3]).await;
    crate::stage::wait_until("all endpoints are known", || {
        [1, 2, 3]
            .iter()
            .all(|node| daemons::etcd::known_endpoints(&stage.data(*node)).len() == 3)
    })
    .await;

    // Stopped before it leaves.
    let options = three.options.clone();
    three.stop().await;
    assert_eq!(leave(&options).await.unwrap(), Departure::Left);
    assert_eq!(leave(&options).await.unwrap(), Departure::LeftBefore);
    stage.all_well(1, &[1, 2]).await;
    let why = Node::start(options).fails().await;
    assert!(why.starts_with("this node left the cluster for good"), "{why}");

    // Of two, one that is stopped cannot leave: the other alone cannot agree to it.
    let options = two.options.clone();
    two.stop().await;
    let refused = leave(&options).await.unwrap_err();
    assert!(
        matches!(
            refused,
            EtcdError::NobodyElse { .. } | EtcdError::QuorumLost { .. }
        ),
        "{refused}"
    );
    let two = Node::start(options.clone());
    stage.all_well(1, &[1, 2]).await;
    // While it runs, it can; and its etcd ends.
    assert_eq!(leave(&options).await.unwrap(), Departure::Left);
    let why = two.fails().await;
    assert!(
        why.contains("left the cluster") || why.contains("was removed"),
        "{why}"
    );
    stage.all_well(1, &[1]).await;

    assert_eq!(leave(&one.options).await.unwrap(), Departure::Last);
    assert!(one.is_running());
    let options = one.options.clone();
    one.stop().await;
    let _one = Node::start(options);
    stage.all_well(1, &[1]).await;
}

#[tokio::test]
async fn no_node_leaves_where_the_others_could_not_go_on() {
    let stage = Stage::new();
    let [one, _two, three] = stage.three().await;
    stage.all_well(1, &[1, 2, 3]).await;
    crate::stage::wait_until("all endpoints are known", || {
        daemons::etcd::known_endpoints(&stage.data(1)).len() == 3
    })
    .await;
    three.crash().await;
    let refused = leave(&one.options).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "without n1 only 1 of 2 members could be reached, and the cluster could not decide any more; \
         first bring back or remove n3"
    );
    assert_eq!(stage.members(1).await.len(), 3);
}

#[tokio::test]
async fn a_node_that_never_joined_has_nothing_to_leave() {
    let stage = Stage::new();
    let error = leave(&stage.options(1, Start::Unsaid)).await.unwrap_err();
    assert!(matches!(error, EtcdError::NothingToLeave));
}
