//! More at once than there is room for: refused with a word, and only they.

use std::time::Duration;

use cluster_tests::{Answer, await_that};
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::slow_peers::other;
use crate::socket::Socket;
use crate::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn too_many_who_wait_are_told_to_come_back() {
    let stage = Stage::up(&[
        "--set",
        "gateway.max_waiting=2",
        "--set",
        "gateway.share=100",
        "--set",
        "gateway.max_body=1KiB",
    ]);
    let web = &stage.web;
    let gate = stage.gate("gate");
    let task = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await
        .json();
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    // Two that follow: each has its place once it has its first event.
    let id = task["id"].as_str().unwrap().parse().unwrap();
    let mut follows = Vec::new();
    for _ in 0..2 {
        let mut events = stage.system.client.events(id).await.unwrap();
        events.next().await.unwrap().unwrap();
        follows.push(events);
    }
    stage
        .system
        .client
        .events(id)
        .await
        .err()
        .expect("no third place");
    let full = web.get(&format!("{path}?wait=60")).await;
    let problem = full.problem(429);
    assert_eq!(problem["limit"], "2", "{problem}");
    assert!(full.header("retry-after").parse::<u32>().is_ok());
    // Who does not wait has room enough.
    assert_eq!(web.get(&path).await.status, 200);
    assert_eq!(web.get("/api/v1/stats").await.status, 200);
    gate.open();
    for events in follows {
        let events: Vec<_> = events.collect().await;
        assert_eq!(
            events.last().unwrap().as_ref().unwrap().status,
            model::Status::Success
        );
    }
    await_that("a place to be free", PATIENCE, async || {
        (web.get(&format!("{path}?wait=0")).await.status == 200).then_some(())
    })
    .await;
    // The body's limit is the operator's as well.
    let large = json!({"execute": {"command": "x".repeat(2000)}});
    let problem = web.post("/api/v1/tasks", &large).await.problem(413);
    assert_eq!(problem["limit"], "1024");
}

#[tokio::test]
async fn when_all_places_are_taken_others_are_told_to_come_back() {
    let stage = Stage::up(&["--set", "gateway.max_requests=4", "--set", "gateway.share=100"]);
    // More than the kernel takes for a client that does not read.
    let blob = vec![0; 32 << 20];
    let hash: String = Sha256::digest(&blob)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = format!("/api/v1/blobs/{hash}");
    let put = stage.web.request("PUT", &path).body(blob);
    assert_eq!(Answer::of(put).await.status, 201);
    let mut slow = Vec::new();
    for _ in 0..4 {
        // It has the beginning of its answer, so it has its place.
        let mut socket = Socket::open(&stage.system).await;
        let get = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = socket.ask(&get).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        slow.push(socket);
    }
    // All places are this caller's; another one is not to blame for that.
    for (web, status) in [(&stage.web, 429), (&other(&stage), 503)] {
        let problem = web.get("/api/v1/stats").await.problem(status);
        assert_eq!(problem["limit"], "4", "{problem}");
        // A body is refused when it is there.
        let task = json!({"execute": {"command": "true"}});
        web.post("/api/v1/tasks", &task).await.problem(status);
        // The description of the API is long, so it takes a place too.
        for path in ["/api/openapi.json", "/api/docs"] {
            web.get(path).await.problem(status);
        }
    }
    // Health checks and metrics are always answered.
    for path in ["/healthz", "/metrics"] {
        assert_eq!(stage.web.get(path).await.status, 200, "{path}");
    }
    await_that("the node to be ready", PATIENCE, async || {
        (stage.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    drop(slow);
    await_that("a place to be free", PATIENCE, async || {
        (stage.web.get("/api/v1/stats").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_sends_and_then_waits_has_one_place_after_the_other() {
    let flags = [
        "--set",
        "gateway.max_requests=2",
        "--set",
        "gateway.max_waiting=1",
        "--set",
        "gateway.share=100",
    ];
    let sending = async |stage: &Stage| {
        let half = "POST /api/v1/tasks?wait=60 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\
                    Expect: 100-continue\r\n\r\n";
        let mut socket = Socket::open(&stage.system).await;
        assert!(socket.ask(half).await.starts_with("HTTP/1.1 100 "));
        socket
    };
    // While it sends, it takes no place from those that work.
    let stage = Stage::up(&flags);
    let slow = (sending(&stage).await, sending(&stage).await);
    assert_eq!(stage.web.get("/api/v1/stats").await.status, 200);
    drop(slow);
    // While it waits, as many as ever may work; but nobody else may wait, and who would adds nothing. On a new node:
    // nobody tells when both places of the old one are free.
    let stage = Stage::up(&flags);
    let web = &stage.web;
    let gate = stage.gate("gate");
    let task = json!({"execute": {"command": gate.wait()}});
    let waiting = web.post("/api/v1/tasks?wait=60", &task);
    let others = async {
        await_that("the task to be there", PATIENCE, async || {
            let page = web.get("/api/v1/tasks").await;
            (page.status == 200 && page.json()["tasks"][0].is_object()).then_some(())
        })
        .await;
        let slow = sending(&stage).await;
        await_that("a place beside it", PATIENCE, async || {
            (web.get("/api/v1/stats").await.status == 200).then_some(())
        })
        .await;
        web.post("/api/v1/tasks?wait=60", &task).await.problem(429);
        drop(slow);
        let page = web.get("/api/v1/tasks").await.json();
        assert_eq!(page["tasks"].as_array().unwrap().len(), 1, "{page}");
        gate.open();
    };
    let (answer, ()) = tokio::join!(waiting, others);
    assert_eq!(answer.json()["status"], "success");
}

#[tokio::test]
async fn a_hundred_clients_are_served_at_once() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    let tasks = join_all((0..100).map(async |n| {
        let task = json!({"user": format!("u{n}"), "execute": {"command": format!("echo {n}; cat"), "input": n.to_string()}});
        (n, web.run(&task).await)
    }))
    .await;
    for (n, task) in tasks {
        assert_eq!(task["result"]["execute"]["stdout"], format!("{n}\n{n}"));
        assert_eq!(
            (&task["user"], &task["status"]),
            (&json!(format!("u{n}")), &json!("success"))
        );
    }
    assert_eq!(web.get("/api/v1/stats").await.json()["counts"]["success"], 100);
}
