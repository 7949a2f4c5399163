//! Live output in a cluster: executor and gateway talk to different judicators, and judicators are killed.

use std::time::Instant;

use cluster_tests::{
    ClusterProcess, RPC, RawHttpClient, ReceivedEvent, StreamedResponse, TestCluster, shell,
};
use nix::sys::signal::Signal;

fn numbers(count: u32) -> Vec<u8> {
    (1..=count)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

/// The output that events carry. Asserts that it has no gaps.
fn text_of(events: &[ReceivedEvent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ReceivedEvent { name, data } in events {
        if name == "output" {
            assert_eq!(data["offset"], bytes.len(), "output was lost or repeated");
            bytes.extend_from_slice(data["text"].as_str().unwrap().as_bytes());
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_followed_through_any_judicator_and_kills_of_them() {
    let mut cluster = TestCluster::of(3).await;
    let addresses = ["j1", "j2", "j3"].map(|name| cluster.node(name).address_of(RPC));
    let [first, second, third] = addresses.each_ref().map(String::as_str);
    // The executor talks to the first judicator, and the gateway to the third, as long as they live.
    let _executor = cluster.plain_executor("e", &[first, second]);
    let listen = "127.0.0.1:0";
    let gateway = cluster.plain_gateway("g", listen, &[third, second, first]);
    let web = RawHttpClient::new(&format!("http://{}", gateway.address("http")));
    cluster.wait_for_executors(1).await;

    let gates = ["one", "two", "three"].map(|name| cluster.folder().join(name));
    let wait = gates
        .each_ref()
        .map(|gate| format!("until [ -e {} ]; do sleep 0.02; done", gate.display()));
    let command = format!(
        "seq 1 20000; {}; seq 20001 40000; {}; seq 40001 60000; {}; seq 1 30000 > kept; echo end",
        wait[0], wait[1], wait[2]
    );
    let mut task = shell(&command);
    task["keep"] = serde_json::json!(["kept"]);
    let task = web.post("/api/v1/tasks", &task).await.json();
    let id = task["id"].as_str().unwrap();
    let follow = async |rest: &str| {
        let path = format!("/api/v1/tasks/{id}/{rest}");
        StreamedResponse::open(web.request("GET", &path)).await
    };
    let mut raw = follow("execute/stdout?follow=true").await;
    let mut events = follow("events?output=true").await;
    // At first nobody, then the judicator of the executor, then that of the gateway.
    for (count, gate, victim) in [
        (20_000, &gates[0], Some("j1")),
        (40_000, &gates[1], Some("j3")),
        (60_000, &gates[2], None),
    ] {
        let expected = numbers(count);
        let begun = Instant::now();
        raw.wait_for("the next part", |bytes| bytes.len() >= expected.len())
            .await;
        assert!(raw.received() == expected, "output was lost or repeated");
        events
            .wait_for("the next part", |bytes| {
                text_of(&ReceivedEvent::parse_all(bytes)) == expected
            })
            .await;
        println!("{count} lines after {:?}", begun.elapsed());
        let process = ClusterProcess::Service("judicator");
        match victim {
            Some(name) => {
                let killed = cluster.node_mut(name).signal(process, Signal::SIGKILL).await;
                std::fs::write(gate, "").unwrap();
                cluster.node(name).wait_until_replaced(process, killed).await;
            }
            None => std::fs::write(gate, "").unwrap(),
        }
    }
    let whole = [numbers(60_000), b"end\n".to_vec()].concat();
    assert!(raw.complete().await == whole);
    assert!(text_of(&ReceivedEvent::parse_all(&events.complete().await)) == whole);
    // The result is in blobs, which the executor has given to another judicator than the gateway asks.
    let stdout = web.get(&format!("/api/v1/tasks/{id}/execute/stdout")).await;
    assert!(stdout.body == whole, "{} bytes", stdout.body.len());
    let kept = web.get(&format!("/api/v1/tasks/{id}/files/kept")).await;
    assert!(kept.body == numbers(30_000), "{} bytes", kept.body.len());
    let task = web.get(&format!("/api/v1/tasks/{id}")).await.json();
    assert_eq!(
        (&task["status"], &task["attempt"]),
        (&"success".into(), &1.into()),
        "{task:#}"
    );
}
