//! Members that are down, and members that lost their data.

use std::net::TcpStream;

use mongodb::bson::{Document, doc};

use crate::ground::{Ground, SECRET, until};

#[tokio::test]
async fn one_that_is_down_is_not_removed() {
    let mut ground = Ground::new(None).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    ground.crash("c").await;
    // The set goes on being changed while it is down.
    ground.start("d");
    until("d votes, c stays", async || {
        let told: Vec<String> = ground
            .states()
            .await
            .iter()
            .map(|member| format!("{} {}", member.name, member.votes))
            .collect();
        told == ["a 1", "b 1", "c 1", "d 1"]
    })
    .await;
    until("c is missed", async || {
        ground.states().await[2].state == "unreachable"
    })
    .await;
    ground.start("c");
    ground.until_set_is("a+ b+ c+ d+").await;
    ground.end().await;
}

#[tokio::test]
async fn lost_data_comes_back_as_another_member() {
    let mut ground = Ground::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    let before = ground.record("members/c").await.unwrap();
    let kept = ground.database().await.collection::<Document>("kept");
    kept.insert_one(doc! { "_id": 1 }).await.unwrap();
    ground.crash("c").await;
    ground.crash("b").await;
    std::fs::remove_dir_all(ground.data("c").join("data")).unwrap();

    // One of three is there: no majority, nobody who could remove what c was. Its mongod must not start, or a and
    // an empty c would be a majority that has forgotten what b and c acknowledged.
    ground.start("c");
    until("c is registered anew", async || {
        ground.record("members/c").await.is_some_and(|now| now != before)
    })
    .await;
    let marks = ground.records_below("left/").await;
    assert!(
        marks
            .iter()
            .any(|mark| mark.contains(r#""name":"c""#) && mark.contains(r#""gone":false"#)),
        "{marks:?}"
    );
    assert!(
        TcpStream::connect(ground.address("c")).is_err(),
        "mongod was started on an empty folder"
    );

    ground.start("b");
    ground.until_set_is("a+ b+ c+").await;
    let marks = ground.records_below("left/").await;
    assert!(
        marks.iter().all(|mark| mark.contains(r#""gone":true"#)),
        "{marks:?}"
    );
    ground.end().await;
}

#[tokio::test]
async fn lost_data_does_not_sit_on_its_old_seat_though_etcd_knows_nothing_of_it() {
    let mut ground = Ground::new(Some(SECRET)).await;
    for name in ["a", "b", "c"] {
        ground.start(name);
    }
    ground.until_set_is("a+ b+ c+").await;
    let before = ground.record("members/c").await.unwrap();
    for name in ["a", "b", "c"] {
        ground.crash(name).await;
    }

    // etcd is set up anew, with the data of all but one.
    let other = Ground::new(None).await;
    ground.access = other.access.clone();
    std::fs::remove_dir_all(ground.data("c")).unwrap();
    for name in ["a", "b"] {
        std::fs::remove_file(ground.data(name).join("cluster")).unwrap();
        ground.start(name);
    }
    until("the set is confirmed", async || {
        ground.record("initiated").await.is_some()
    })
    .await;
    ground.start("c");
    ground.until_set_is("a+ b+ c+").await;

    let incarnation = |record: &str| {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        record["incarnation"].as_str().unwrap().to_string()
    };
    let now = ground.record("members/c").await.unwrap();
    assert_ne!(incarnation(&now), incarnation(&before));
    until("c has a seat of its own", async || {
        let set = ground.record("set").await.unwrap();
        set.contains(&incarnation(&now)) && !set.contains(&incarnation(&before))
    })
    .await;
    let mark = ground.record(&format!("left/{}", incarnation(&before))).await;
    assert!(mark.is_some_and(|mark| mark.contains(r#""gone":true"#)));
    ground.end().await;
}
