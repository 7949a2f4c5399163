//! More requests at once than allowed: the excess is refused with a reason.

use std::time::Duration;

use cluster_tests::{HttpResponse, wait_until};
use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;

use crate::harness::{SingleNode, sha256_hex};
use crate::raw_connection::RawConnection;
use crate::slow_clients::other;

const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn too_many_waiting_requests_are_refused() {
    let node = SingleNode::up(&[
        "--set",
        "gateway.max_waiting=2",
        "--set",
        "gateway.share=100",
        "--set",
        "gateway.max_body=1KiB",
    ]);
    let web = &node.web;
    let gate = node.gate("gate");
    let task = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await
        .json();
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    // Two event streams: each has its permit once it has its first event.
    let id = task["id"].as_str().unwrap().parse().unwrap();
    let mut follows = Vec::new();
    for _ in 0..2 {
        let mut events = node.system.client.events(id).await.unwrap();
        events.next().await.unwrap().unwrap();
        follows.push(events);
    }
    node.system.client.events(id).await.err().expect("no third place");
    let full = web.get(&format!("{path}?wait=60")).await;
    let problem = full.assert_problem(429);
    assert_eq!(problem["limit"], "2", "{problem}");
    assert!(full.header("retry-after").parse::<u32>().is_ok());
    // Requests that do not wait are served.
    assert_eq!(web.get(&path).await.status, 200);
    assert_eq!(web.get("/api/v1/stats").await.status, 200);
    gate.open();
    for events in follows {
        let events: Vec<_> = events.collect().await;
        assert_eq!(
            events.last().unwrap().as_ref().unwrap().status,
            model::TaskStatus::Success
        );
    }
    wait_until("a place to be free", TIMEOUT, async || {
        (web.get(&format!("{path}?wait=0")).await.status == 200).then_some(())
    })
    .await;
    // The limit of the body is the operator's as well.
    let large = json!({"execute": {"command": "x".repeat(2000)}});
    let problem = web.post("/api/v1/tasks", &large).await.assert_problem(413);
    assert_eq!(problem["limit"], "1024");
}

#[tokio::test]
async fn requests_beyond_the_total_are_refused() {
    let node = SingleNode::up(&["--set", "gateway.max_requests=4", "--set", "gateway.share=100"]);
    // More than the kernel buffers for a client that does not read.
    let blob = vec![0; 32 << 20];
    let hash = sha256_hex(&blob);
    let path = format!("/api/v1/blobs/{hash}");
    let put = node.web.request("PUT", &path).body(blob);
    assert_eq!(HttpResponse::of(put).await.status, 201);
    let mut slow = Vec::new();
    for _ in 0..4 {
        // The response has begun, so the request has its permit.
        let mut socket = RawConnection::open(&node.system).await;
        let get = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = socket.ask(&get).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        slow.push(socket);
    }
    // All permits are this caller's; another caller gets 503 instead of 429.
    for (web, status) in [(&node.web, 429), (&other(&node), 503)] {
        let problem = web.get("/api/v1/stats").await.assert_problem(status);
        assert_eq!(problem["limit"], "4", "{problem}");
        // A request with a body is refused when the body has arrived.
        let task = json!({"execute": {"command": "true"}});
        web.post("/api/v1/tasks", &task).await.assert_problem(status);
        // The API description is long, so it needs a permit, too.
        for path in ["/api/openapi.json", "/api/docs"] {
            web.get(path).await.assert_problem(status);
        }
    }
    // Health checks and metrics are always answered.
    for path in ["/healthz", "/metrics"] {
        assert_eq!(node.web.get(path).await.status, 200, "{path}");
    }
    wait_until("the node to be ready", TIMEOUT, async || {
        (node.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    drop(slow);
    wait_until("a place to be free", TIMEOUT, async || {
        (node.web.get("/api/v1/stats").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_request_holds_an_upload_permit_and_then_a_wait_permit() {
    let flags = [
        "--set",
        "gateway.max_requests=2",
        "--set",
        "gateway.max_waiting=1",
        "--set",
        "gateway.share=100",
    ];
    let sending = async |node: &SingleNode| {
        let half = "POST /api/v1/tasks?wait=60 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\
                    Expect: 100-continue\r\n\r\n";
        let mut socket = RawConnection::open(&node.system).await;
        assert!(socket.ask(half).await.starts_with("HTTP/1.1 100 "));
        socket
    };
    // While it uploads, it holds no request permit.
    let node = SingleNode::up(&flags);
    let slow = (sending(&node).await, sending(&node).await);
    assert_eq!(node.web.get("/api/v1/stats").await.status, 200);
    drop(slow);
    // While it waits, other requests are served; but no other may wait, and one that asks to wait adds nothing. On a new node,
    // because it is unknown when both permits of the old one are released.
    let node = SingleNode::up(&flags);
    let web = &node.web;
    let gate = node.gate("gate");
    let task = json!({"execute": {"command": gate.wait()}});
    let waiting = web.post("/api/v1/tasks?wait=60", &task);
    let others = async {
        wait_until("the task to be there", TIMEOUT, async || {
            let page = web.get("/api/v1/tasks").await;
            (page.status == 200 && page.json()["tasks"][0].is_object()).then_some(())
        })
        .await;
        let slow = sending(&node).await;
        wait_until("a place beside it", TIMEOUT, async || {
            (web.get("/api/v1/stats").await.status == 200).then_some(())
        })
        .await;
        web.post("/api/v1/tasks?wait=60", &task).await.assert_problem(429);
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
    let node = SingleNode::up(&[]);
    let web = &node.web;
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
