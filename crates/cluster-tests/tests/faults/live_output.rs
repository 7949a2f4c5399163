//! Output that is followed while nodes are killed: a follower goes on at its offset.

use std::time::Instant;

use cluster_tests::{BodyEnd, NodeProcess, RawHttpClient, ReceivedEvent, StreamedResponse, shell};
use model::TaskId;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS};

/// A task that prints a part whenever the test opens the next gate.
fn parts(harness: &FaultHarness) -> serde_json::Value {
    let wait = |gate: &str| {
        format!(
            "until [ -e {} ]; do sleep 0.02; done",
            harness.path(gate).display()
        )
    };
    let command = format!(
        "seq 1 30000; {}; seq 30001 60000; {}; seq 60001 90000; {}; echo end",
        wait("one"),
        wait("two"),
        wait("three")
    );
    shell(&command)
}

fn numbers(count: u32) -> Vec<u8> {
    (1..=count)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

async fn follow(web: &RawHttpClient, id: TaskId, rest: &str) -> StreamedResponse {
    let follower = StreamedResponse::open(web.request("GET", &format!("/api/v1/tasks/{id}/{rest}"))).await;
    assert_eq!(follower.status, 200);
    follower
}

/// The output of one attempt, as events carry it.
fn text_of(events: &[ReceivedEvent], attempt: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ReceivedEvent { name, data } in events {
        if name == "output" && data["attempt"] == attempt {
            assert_eq!(data["offset"], bytes.len(), "output was lost or repeated");
            bytes.extend_from_slice(data["text"].as_str().unwrap().as_bytes());
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_continues_after_a_kill_of_the_judicator() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let mut judicator: NodeProcess = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let _executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let web = RawHttpClient::new(&system.url(""));
    let id = system.add(parts(&harness)).await.id;
    let mut raw = follow(&web, id, "execute/stdout?follow=true").await;
    let mut events = follow(&web, id, "events?output=true").await;
    for (count, gate) in [(30_000, "one"), (60_000, "two"), (90_000, "three")] {
        let expected = numbers(count);
        raw.wait_for("the next part", |bytes| bytes.len() >= expected.len())
            .await;
        assert!(raw.received() == expected, "output was lost or repeated");
        events
            .wait_for("the next part", |bytes| {
                text_of(&ReceivedEvent::parse_all(bytes), 1) == expected
            })
            .await;
        if gate == "three" {
            break;
        }
        // The program continues while there is no judicator.
        judicator.kill();
        let killed = Instant::now();
        harness.open(gate);
        judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
        // Somebody who comes now gets all of it, too.
        let mut late = follow(&web, id, "execute/stdout?follow=true").await;
        let expected = numbers(count + 30_000);
        late.wait_for("everything", |bytes| bytes.len() >= expected.len())
            .await;
        println!("followed again {:?} after the kill", killed.elapsed());
    }
    harness.open("three");
    let whole = [numbers(90_000), b"end\n".to_vec()].concat();
    assert!(raw.complete().await == whole);
    let events = ReceivedEvent::parse_all(&events.complete().await);
    assert!(text_of(&events, 1) == whole);
    assert_eq!(events.last().unwrap().data["status"], "success");
    drop(judicator);
}

/// The next attempt begins again at offset 0. A raw follower cannot be told, so its connection is aborted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_attempt_aborts_raw_followers_and_events_begin_again() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let web = RawHttpClient::new(&system.url(""));
    let gate = harness.path("gate");
    let command = format!(
        "echo run $$; until [ -e {} ]; do sleep 0.02; done; echo end",
        gate.display()
    );
    let id = system.add(shell(&command)).await.id;
    let mut raw = follow(&web, id, "execute/stdout?follow=true").await;
    let mut events = follow(&web, id, "events?output=true").await;
    let is_line = |bytes: &[u8]| bytes.starts_with(b"run ") && bytes.ends_with(b"\n");
    raw.wait_for("the first line", is_line).await;
    events
        .wait_for("the first line", |bytes| {
            is_line(&text_of(&ReceivedEvent::parse_all(bytes), 1))
        })
        .await;
    let first = raw.received();
    executor.kill();
    let _executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let (end, bytes) = raw.end().await;
    assert_eq!((end, &bytes), (BodyEnd::Aborted, &first));
    events
        .wait_for("the line of the second run", |bytes| {
            is_line(&text_of(&ReceivedEvent::parse_all(bytes), 2))
        })
        .await;
    let mut again = follow(&web, id, "execute/stdout?follow=true").await;
    again.wait_for("the line of the second run", is_line).await;
    assert_ne!(again.received(), first);
    harness.open("gate");
    let whole = again.complete().await;
    assert!(whole.ends_with(b"\nend\n"));
    let events = ReceivedEvent::parse_all(&events.complete().await);
    assert_eq!(text_of(&events, 2), whole);
    assert_eq!(text_of(&events, 1), first);
}
