//! Nodes leave the replica set, and lost nodes are removed.

use std::time::Duration;

use daemons::mongodb::{
    MemberAction, MongodbDaemonError, RecheckDelay, ReplicaSetRemoval, check_can_leave, leave,
    registered_members, remove_member,
};

use crate::harness::{ReplicaSetHarness, SECRET, execute, wait_until};

const LEAVE_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_node_that_left_does_not_return_with_its_old_data() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;

    // The primary leaves: another member has to become primary first.
    let primary = harness.primary().await;
    let options = harness.options(&primary);
    leave(&options, LEAVE_TIMEOUT).await.unwrap();
    leave(&options, LEAVE_TIMEOUT).await.unwrap();
    harness.stop(&primary).await;
    let others: Vec<&str> = ["a", "b", "c"]
        .into_iter()
        .filter(|name| *name != primary)
        .collect();
    harness
        .wait_until_set_is(&format!("{}+ {}+", others[0], others[1]))
        .await;
    let message = harness.run_until_failure(options.clone()).await;
    assert!(message.contains("has left the cluster"), "{message}");
    assert!(options.data.join("data/WiredTiger").exists());

    // A node that answers is not removed; a node that is down is.
    let (dead, last) = (others[0], others[1]);
    let refused = remove_member(&harness.access, dead, LEAVE_TIMEOUT)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, MongodbDaemonError::StillAlive { .. }),
        "{refused}"
    );
    let refused = remove_member(&harness.access, "nobody", LEAVE_TIMEOUT)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("no member of the replica set is named nobody; the members are {dead}, {last}")
    );
    // In a set of two, neither can be removed while it is down. With a third member it can.
    harness.start("d");
    harness.wait_until_set_is(&sorted([dead, last, "d"])).await;
    harness.crash(dead).await;
    assert_eq!(
        remove_member(&harness.access, dead, LEAVE_TIMEOUT).await.unwrap(),
        ReplicaSetRemoval::Complete
    );
    assert_eq!(
        remove_member(&harness.access, dead, LEAVE_TIMEOUT).await.unwrap(),
        ReplicaSetRemoval::Complete
    );
    harness.wait_until_set_is(&sorted([last, "d"])).await;
    // It was down when it was removed, and is refused when it starts again.
    let options = harness.options(dead);
    let message = harness.run_until_failure(options).await;
    assert!(message.contains("has left the cluster"), "{message}");

    let options = harness.options("d");
    leave(&options, LEAVE_TIMEOUT).await.unwrap();
    harness.stop("d").await;
    harness.wait_until_set_is(&sorted([last])).await;
    let options = harness.options(last);
    let refused = leave(&options, LEAVE_TIMEOUT).await.unwrap_err();
    assert!(
        matches!(refused, MongodbDaemonError::LastMember { .. }),
        "{refused}"
    );
    assert_eq!(registered_members(&harness.access).await.unwrap().len(), 1);
    harness.shut_down().await;
}

#[tokio::test]
async fn a_member_that_the_majority_needs_cannot_leave_and_blocks_nobody() {
    let mut harness = ReplicaSetHarness::new(None).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    harness.crash("c").await;
    harness.primary().await;

    // Without b, a would be one of two voters. Nothing is changed.
    let options = harness.options("b");
    for refused in [
        check_can_leave(&options).await.unwrap_err(),
        leave(&options, LEAVE_TIMEOUT).await.unwrap_err(),
    ] {
        let message = refused.to_string();
        assert!(
            message.contains("needs b") && message.contains("bring back c (unreachable)"),
            "{message}"
        );
    }
    assert_eq!(harness.records_with_prefix("left/").await, Vec::<String>::new());
    assert_eq!(registered_members(&harness.access).await.unwrap().len(), 3);

    // As if c had gone down after b was allowed to leave: mongod refuses to remove b.
    harness.deregister("b").await;
    let refused = leave(&options, Duration::from_secs(3)).await.unwrap_err();
    assert!(
        matches!(refused, MongodbDaemonError::StillMember { .. }),
        "{refused}"
    );
    assert!(!options.data.join("left").exists());
    // Until it is removed it is a member, and starts as one.
    harness.stop("b").await;
    harness.start("b");
    // c can be removed, and then b can.
    assert_eq!(
        remove_member(&harness.access, "c", LEAVE_TIMEOUT).await.unwrap(),
        ReplicaSetRemoval::Complete
    );
    leave(&options, LEAVE_TIMEOUT).await.unwrap();
    assert!(options.data.join("left").exists());
    harness.stop("b").await;
    harness.wait_until_set_is("a+").await;
    harness.shut_down().await;
}

#[tokio::test]
async fn the_only_voter_leaves_after_another_member_got_a_vote() {
    let mut harness = ReplicaSetHarness::new(None).await;
    let mut first = harness
        .run_until_action("a", &MemberAction::ReconcileAsPrimary)
        .await;
    harness.start("b");
    harness.wait_until_registered("b").await;
    // Adds b once its own config is committed, and does nothing more. When b has the data, a may leave.
    wait_until("b is added", async || {
        execute(&mut first, &MemberAction::ReconcileAsPrimary).await == RecheckDelay::None
    })
    .await;
    let options = harness.options("a");
    wait_until("b has the data", async || check_can_leave(&options).await.is_ok()).await;
    assert_eq!(harness.members().await[1].votes, 0);
    harness.deregister("a").await;
    harness.crash_daemon("a", first).await;

    // After its restart a knows that it has left, and that no other member could become primary.
    harness.start("a");
    leave(&options, LEAVE_TIMEOUT).await.unwrap();
    harness.stop("a").await;
    harness.wait_until_set_is("b+").await;
    harness.shut_down().await;
}

fn sorted<const N: usize>(mut names: [&str; N]) -> String {
    names.sort_unstable();
    names.map(|name| format!("{name}+")).join(" ")
}
