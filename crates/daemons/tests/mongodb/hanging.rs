//! Members that are there and do nothing.

use std::time::Instant;

use mongodb::bson::{Document, doc};

use crate::ground::{Ground, SECRET, until};

#[tokio::test]
async fn a_primary_that_stands_still_is_replaced_and_killed() {
    let mut ground = Ground::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    let kept = ground.database().await.collection::<Document>("kept");
    kept.insert_one(doc! { "_id": 1 }).await.unwrap();

    let primary = ground.primary().await;
    ground.halt(&primary);
    let begun = Instant::now();
    let told = ground.last_word(&primary).await;
    assert!(told.contains("mongod did not answer for "), "{told}");
    until("a majority is written to", async || {
        let written = kept.insert_one(doc! {}).await;
        written.is_ok()
    })
    .await;
    println!("written again after {:.1?}", begun.elapsed());

    // As boot would.
    ground.start(&primary);
    ground.until_set_is("a+ b+ c+").await;
    ground.end().await;
}
