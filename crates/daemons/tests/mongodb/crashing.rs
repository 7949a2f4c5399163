//! A crash between any two steps of initiating the set.

use std::time::Duration;

use daemons::mongodb::{MongodbError, Options, Step};

use crate::ground::{Ground, SECRET, step_of};

#[tokio::test]
async fn after_the_claim_another_takes_over() {
    let mut ground = Ground::new(Some(SECRET)).await;
    let claimed = ground.walk_until("a", &Step::Initiate).await;
    ground.crash_node("a", claimed).await;

    // While the one that claimed is away, nobody knows whether it is in a set. The next one is to keep its claim.
    let options = Options {
        lease: Duration::from_secs(60),
        ..ground.options("b")
    };
    ground.start_with(options);
    crate::ground::until("b has the claim", async || {
        ground
            .record("initiate")
            .await
            .is_some_and(|claim| claim.contains(r#""name":"b""#))
    })
    .await;
    assert_eq!(ground.record("initiated").await, None);
    ground.start("a");
    ground.until_set_is("a+ b+").await;
    assert!(ground.record("initiated").await.unwrap().contains(r#""by":"b""#));
    ground.end().await;
}

#[tokio::test]
async fn after_initiating_the_user_is_made_by_the_next_life() {
    heals_before(Step::MakeUser).await;
}

#[tokio::test]
async fn after_making_the_user_the_set_is_confirmed_by_the_next_life() {
    heals_before(Step::Confirm).await;
}

async fn heals_before(step: Step) {
    let mut ground = Ground::new(Some(SECRET)).await;
    let walked = ground.walk_until("a", &step).await;
    ground.crash_node("a", walked).await;
    assert_eq!(ground.record("initiated").await, None);
    // Whoever is there meanwhile does not initiate another.
    ground.start("b");
    crate::ground::until("b has the claim", async || {
        ground
            .record("initiate")
            .await
            .is_some_and(|claim| claim.contains(r#""name":"b""#))
    })
    .await;
    ground.start("a");
    ground.until_set_is("a+ b+").await;
    assert!(ground.record("initiated").await.unwrap().contains(r#""by":"a""#));
    ground.end().await;
}

#[tokio::test]
async fn a_set_that_came_second_is_set_aside_and_its_node_joins() {
    let mut ground = Ground::new(None).await;
    let mut late = ground.walk_until("a", &Step::Confirm).await;
    // As if it had been paused for so long that another was confirmed.
    ground
        .write_record("initiated", r#"{"set":"conclave","by":"b","id":"0123"}"#)
        .await;
    assert_eq!(step_of(&mut late).await, Step::SetAside);
    let MongodbError::SetAside { aside } = late.act(&Step::SetAside).await.unwrap_err() else {
        panic!("it was not set aside");
    };
    assert!(aside.join("WiredTiger").exists());
    assert!(!ground.data("a").join("data").exists());
    drop(late);

    // The next life is another member.
    let before = ground.record("members/a").await.unwrap();
    ground.start("a");
    crate::ground::until("a is registered anew", async || {
        ground.record("members/a").await.is_some_and(|now| now != before)
    })
    .await;
    ground.end().await;
}
