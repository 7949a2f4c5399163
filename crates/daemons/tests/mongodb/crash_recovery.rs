//! The daemons continue after a crash between any two steps of initiating the replica set.

use std::time::Duration;

use daemons::mongodb::{MemberAction, MongodDaemonOptions, MongodbDaemonError};

use crate::harness::{ReplicaSetHarness, SECRET, next_action_of};

#[tokio::test]
async fn after_a_crash_with_the_claim_another_node_initiates() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    let claimed = harness.run_until_action("a", &MemberAction::Initiate).await;
    harness.crash_daemon("a", claimed).await;

    // While the node that claimed is down, nobody knows whether it is in a set. The next node keeps its claim
    // meanwhile.
    let options = MongodDaemonOptions {
        lease: Duration::from_secs(60),
        ..harness.options("b")
    };
    harness.start_with(options);
    crate::harness::wait_until("b has the claim", async || {
        harness
            .record("initiate")
            .await
            .is_some_and(|claim| claim.contains(r#""name":"b""#))
    })
    .await;
    assert_eq!(harness.record("initiated").await, None);
    harness.start("a");
    harness.wait_until_set_is("a+ b+").await;
    assert!(harness.record("initiated").await.unwrap().contains(r#""by":"b""#));
    harness.shut_down().await;
}

#[tokio::test]
async fn after_a_crash_behind_the_initiation_the_restarted_daemon_creates_the_user() {
    recovers_from_crash_before(MemberAction::CreateUser).await;
}

#[tokio::test]
async fn after_a_crash_behind_the_user_the_restarted_daemon_confirms_the_set() {
    recovers_from_crash_before(MemberAction::ConfirmSet).await;
}

async fn recovers_from_crash_before(action: MemberAction) {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    let daemon = harness.run_until_action("a", &action).await;
    harness.crash_daemon("a", daemon).await;
    assert_eq!(harness.record("initiated").await, None);
    // Another node that starts meanwhile does not initiate a second set.
    harness.start("b");
    crate::harness::wait_until("b has the claim", async || {
        harness
            .record("initiate")
            .await
            .is_some_and(|claim| claim.contains(r#""name":"b""#))
    })
    .await;
    harness.start("a");
    harness.wait_until_set_is("a+ b+").await;
    assert!(harness.record("initiated").await.unwrap().contains(r#""by":"a""#));
    harness.shut_down().await;
}

#[tokio::test]
async fn a_set_that_was_confirmed_second_is_moved_aside_and_its_node_joins() {
    let mut harness = ReplicaSetHarness::new(None).await;
    let mut late = harness.run_until_action("a", &MemberAction::ConfirmSet).await;
    // As if it had been paused until another set was confirmed.
    harness
        .write_record("initiated", r#"{"set":"conclave","by":"b","id":"0123"}"#)
        .await;
    assert_eq!(next_action_of(&mut late).await, MemberAction::SetDataAside);
    let MongodbDaemonError::MovedAside { aside } =
        late.execute(&MemberAction::SetDataAside).await.unwrap_err()
    else {
        panic!("the data was not moved aside");
    };
    assert!(aside.join("WiredTiger").exists());
    assert!(!harness.data("a").join("data").exists());
    drop(late);

    // After a restart the node is another member.
    let before = harness.record("members/a").await.unwrap();
    harness.start("a");
    crate::harness::wait_until("a is registered anew", async || {
        harness.record("members/a").await.is_some_and(|now| now != before)
    })
    .await;
    harness.shut_down().await;
}
