//! A mongod that runs but does not answer.

use std::time::Instant;

use mongodb::bson::{Document, doc};

use crate::harness::{ReplicaSetHarness, SECRET, wait_until};

#[tokio::test]
async fn a_suspended_primary_is_replaced_and_killed() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    let kept = harness.database().await.collection::<Document>("kept");
    kept.insert_one(doc! { "_id": 1 }).await.unwrap();

    let primary = harness.primary().await;
    harness.suspend_mongod(&primary);
    let begun = Instant::now();
    let message = harness.wait_for_failure(&primary).await;
    assert!(message.contains("mongod did not answer for "), "{message}");
    wait_until("a majority write succeeds", async || {
        let written = kept.insert_one(doc! {}).await;
        written.is_ok()
    })
    .await;
    println!("written again after {:.1?}", begun.elapsed());

    // As boot does.
    harness.start(&primary);
    harness.wait_until_set_is("a+ b+ c+").await;
    harness.shut_down().await;
}
