//! Members that are down stay members; members that lost their data become new ones.

use std::net::TcpStream;

use mongodb::bson::{Document, doc};

use crate::harness::{ReplicaSetHarness, SECRET, wait_until};

#[tokio::test]
async fn a_member_that_is_down_is_not_removed() {
    let mut harness = ReplicaSetHarness::new(None).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    harness.crash("c").await;
    // The set's config is changed while it is down.
    harness.start("d");
    wait_until("d votes, c stays", async || {
        let message: Vec<String> = harness
            .members()
            .await
            .iter()
            .map(|member| format!("{} {}", member.name, member.votes))
            .collect();
        message == ["a 1", "b 1", "c 1", "d 1"]
    })
    .await;
    wait_until("c is reported as unreachable", async || {
        harness.members().await[2].state == "unreachable"
    })
    .await;
    harness.start("c");
    harness.wait_until_set_is("a+ b+ c+ d+").await;
    harness.shut_down().await;
}

#[tokio::test]
async fn a_node_that_lost_its_data_returns_as_another_member() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    let before = harness.record("members/c").await.unwrap();
    let kept = harness.database().await.collection::<Document>("kept");
    kept.insert_one(doc! { "_id": 1 }).await.unwrap();
    harness.crash("c").await;
    harness.crash("b").await;
    std::fs::remove_dir_all(harness.data("c").join("data")).unwrap();

    // One of three members is up: without a majority the old member c cannot be removed. The mongod of c must not
    // start, or a and an empty c would be a majority without the writes that b and c acknowledged.
    harness.start("c");
    wait_until("c is registered anew", async || {
        harness.record("members/c").await.is_some_and(|now| now != before)
    })
    .await;
    let marks = harness.records_with_prefix("left/").await;
    assert!(
        marks
            .iter()
            .any(|mark| mark.contains(r#""name":"c""#) && mark.contains(r#""gone":false"#)),
        "{marks:?}"
    );
    assert!(
        TcpStream::connect(harness.address("c")).is_err(),
        "mongod was started on an empty folder"
    );

    harness.start("b");
    harness.wait_until_set_is("a+ b+ c+").await;
    let marks = harness.records_with_prefix("left/").await;
    assert!(
        marks.iter().all(|mark| mark.contains(r#""gone":true"#)),
        "{marks:?}"
    );
    harness.shut_down().await;
}

#[tokio::test]
async fn a_node_that_lost_its_data_does_not_reuse_its_config_entry_even_if_etcd_is_new() {
    let mut harness = ReplicaSetHarness::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        harness.start(name);
    }
    harness.wait_until_set_is("a+ b+ c+").await;
    let before = harness.record("members/c").await.unwrap();
    for name in ["a", "b", "c"] {
        harness.crash(name).await;
    }

    // etcd is set up anew, and all but one node still have their data.
    let other = ReplicaSetHarness::new(None).await;
    harness.access = other.access.clone();
    std::fs::remove_dir_all(harness.data("c")).unwrap();
    for name in ["a", "b"] {
        std::fs::remove_file(harness.data(name).join("cluster")).unwrap();
        harness.start(name);
    }
    wait_until("the set is confirmed", async || {
        harness.record("initiated").await.is_some()
    })
    .await;
    harness.start("c");
    harness.wait_until_set_is("a+ b+ c+").await;

    let incarnation = |record: &str| {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        record["incarnation"].as_str().unwrap().to_string()
    };
    let now = harness.record("members/c").await.unwrap();
    assert_ne!(incarnation(&now), incarnation(&before));
    wait_until("c has a config entry of its own", async || {
        let set = harness.record("set").await.unwrap();
        set.contains(&incarnation(&now)) && !set.contains(&incarnation(&before))
    })
    .await;
    let mark = harness.record(&format!("left/{}", incarnation(&before))).await;
    assert!(mark.is_some_and(|mark| mark.contains(r#""gone":true"#)));
    harness.shut_down().await;
}
