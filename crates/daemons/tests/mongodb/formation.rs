//! Nodes form a replica set, and change within it.

use crate::harness::{ReplicaSetHarness, SECRET, free_port};

#[tokio::test]
async fn three_nodes_that_start_at_once_form_one_set() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    let initiated = harness.record("initiated").await.unwrap();
    assert!(initiated.contains(r#""set":"conclave""#), "{initiated}");

    // A rolling restart keeps the set as it is.
    for name in ["a", "b", "c"] {
        harness.stop(name).await;
        assert_eq!(harness.members().await.len(), 3);
        harness.start(name);
        harness.wait_until_set_is("a+ b+ c+").await;
    }
    assert_eq!(harness.record("initiated").await.unwrap(), initiated);
    harness.shut_down().await;
}

#[tokio::test]
async fn the_eighth_member_has_no_vote_until_a_voter_has_left() {
    let mut harness = ReplicaSetHarness::new(None).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        harness.start(name);
    }
    crate::harness::wait_until("seven of eight vote", async || {
        let members = harness.members().await;
        members.iter().filter(|member| member.votes > 0).count() == 7
            && members
                .iter()
                .filter(|member| matches!(&*member.state, "primary" | "secondary"))
                .count()
                == 8
    })
    .await;
    let voter = harness
        .wait_for_member("a secondary that votes", |member| {
            member.votes > 0 && member.state == "secondary"
        })
        .await;
    let options = harness.options(&voter);
    daemons::mongodb::leave(&options, std::time::Duration::from_secs(60))
        .await
        .unwrap();
    let rest = names
        .iter()
        .filter(|name| **name != voter)
        .map(|name| format!("{name}+"));
    harness
        .wait_until_set_is(&rest.collect::<Vec<_>>().join(" "))
        .await;
    harness.shut_down().await;
}

#[tokio::test]
async fn a_member_with_a_new_address_stays_the_same_member() {
    let mut harness = ReplicaSetHarness::new(None).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    harness.stop("c").await;
    let mut options = harness.options("c");
    options.port = free_port();
    harness.start_with(options);
    harness.wait_until_set_is("a+ b+ c+").await;
    let members = harness.members().await;
    assert_eq!(members[2].address, harness.address("c"));
    assert_eq!(harness.records_with_prefix("left/").await, Vec::<String>::new());
    harness.shut_down().await;
}
