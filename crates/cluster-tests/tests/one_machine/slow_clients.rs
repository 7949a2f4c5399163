//! Clients that hold resources of the gateway: each caller has its share at most, and clients that are too slow are
//! disconnected.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster_tests::{HttpResponse, NodeProcess, RawHttpClient, TestSystem, wait_until};
use futures::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use crate::harness::{SingleNode, sha256_hex, text};
use crate::raw_connection::RawConnection;
use crate::zip_builder::{ZipBuilder, inline};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A client that counts as another caller than `node.web`.
pub(crate) fn other(node: &SingleNode) -> RawHttpClient {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, 2));
    RawHttpClient::from_address(&node.system.url(""), address)
}

async fn metric(web: &RawHttpClient, name: &str) -> u64 {
    let metrics = web.get("/metrics").await.text();
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or(0)
}

#[tokio::test]
async fn slow_uploads_hold_only_upload_permits_and_time_out() {
    // As many as one caller may have.
    const UPLOADS: usize = 256;
    let node = SingleNode::up(&["--set", "gateway.body_stall=20s"]);
    let put = format!("PUT /api/v1/blobs/{} HTTP/1.1", "0".repeat(64));
    let form = "POST /api/v1/tasks HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x";
    let json = "POST /api/v1/tasks HTTP/1.1\r\nContent-Type: application/json";
    let begin = async |request: &str, length: usize| {
        let head = format!(
            "{request}\r\nHost: localhost\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut socket = RawConnection::open(&node.system).await;
        let answer = socket.ask(&head).await;
        (socket, answer)
    };
    let large = (0..UPLOADS).map(|n| begin(if n % 2 == 0 { &put } else { form }, 1_000_000));
    let small = (0..UPLOADS).map(|n| begin(if n % 2 == 0 { json } else { form }, 1000));
    let (large, small) = tokio::join!(join_all(large), join_all(small));
    let mut slow = Vec::new();
    for (socket, answer) in large.into_iter().chain(small) {
        // The server answered 100 Continue, so it receives the body.
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
        slow.push(socket);
    }
    let (_, answer) = begin(&put, 1_000_000).await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    // From the same address, which may be a proxy's, and from another.
    for web in [&node.web, &other(&node)] {
        assert_eq!(web.get("/api/v1/tasks").await.status, 200);
        let task = web.run(&json!({"execute": {"command": "echo served"}})).await;
        assert_eq!(task["result"]["execute"]["stdout"], "served\n");
    }
    let ends = join_all(
        slow.iter_mut()
            .map(|socket| socket.trickle(b"x", Duration::from_secs(1))),
    )
    .await;
    for end in ends {
        assert!(end.is_empty() || end.starts_with("HTTP/1.1 408 "), "{end}");
    }
    wait_until("a place to be free", TIMEOUT, async || {
        let (_, answer) = begin(&put, 1_000_000).await;
        answer.starts_with("HTTP/1.1 100 ").then_some(())
    })
    .await;
    let ended = metric(&node.web, "conclave_http_too_slow_total{what=\"body\"}").await;
    assert_eq!(ended, 2 * UPLOADS as u64);
    let refused = "conclave_http_exhausted_total{resource=\"uploads\",bound=\"share\"}";
    assert!(metric(&node.web, refused).await > 0);
}

#[tokio::test]
async fn a_slow_but_steady_upload_is_accepted() {
    let node = SingleNode::up(&["--set", "gateway.body_stall=10s"]);
    let piece = vec![b'x'; 4 << 10];
    let pieces = 48;
    let hash = sha256_hex(piece.repeat(pieces));
    let head = format!(
        "PUT /api/v1/blobs/{hash} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        piece.len() * pieces
    );
    let mut socket = RawConnection::open(&node.system).await;
    socket.send_only(head.as_bytes()).await;
    // Longer than the window, and much slower than a fast connection.
    let answer = socket.trickle(&piece, Duration::from_millis(250)).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

/// The sum of a metric over all labels.
async fn metric_total(web: &RawHttpClient, name: &str) -> u64 {
    let metrics = web.get("/metrics").await.text();
    let labelled = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let values = labelled.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// Adds a task whose JSON has more than 7 MiB, and returns its id: files that together are too small to become blobs, and
/// outputs, of bytes that JSON encodes with six characters.
async fn add_large(node: &SingleNode) -> String {
    let file = |number: usize| (number.to_string(), json!("\0".repeat(31_000)));
    let files: serde_json::Map<_, _> = (0..33).map(file).collect();
    let print = "head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2";
    let task = json!({"data": files, "compile": {"command": print}, "execute": {"command": print}});
    let added = node.web.run(&task).await;
    added["id"].as_str().expect("an id").to_string()
}

#[tokio::test]
async fn unread_responses_are_bounded_and_time_out() {
    const READERS: u64 = 40;
    // The default of gateway.max_bytes.
    const MAX_BYTES: u64 = 256 << 20;
    let node = SingleNode::up(&["--set", "gateway.answer_stall=15s"]);
    let path = format!("/api/v1/tasks/{}", add_large(&node).await);
    let size = node.web.get(&path).await.body.len();
    assert!(size > 7 << 20, "{size}");
    let before = resident(&node, "VmRSS:");
    let mut sockets = join_all((0..READERS).map(|_| RawConnection::open(&node.system))).await;
    let asking = sockets.iter_mut().enumerate().map(|(n, socket)| {
        let wait = if n % 2 == 0 { "" } else { "?wait=30" };
        let get = format!("GET {path}{wait} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        async move { socket.send_only(get.as_bytes()).await }
    });
    join_all(asking).await;
    // Requests beyond the limit wait for memory, and are refused in the end.
    let other = other(&node);
    let refused = async || metric_total(&other, "conclave_http_exhausted_total").await;
    wait_until("one to be refused", TIMEOUT, async || {
        (refused().await > 0).then_some(())
    })
    .await;
    // Half of the memory is available to other callers.
    assert_eq!(other.get(&path).await.body.len(), size);
    wait_until("all to be refused or closed", TIMEOUT * 3, async || {
        let closed = metric(&other, "conclave_http_too_slow_total{what=\"answer\"}").await;
        (closed > 0 && refused().await + closed >= READERS).then_some(())
    })
    .await;
    // One caller's responses use half of the bytes. The other half is more than enough for the tasks that are being read.
    let grown = resident(&node, "VmHWM:").saturating_sub(before);
    assert!(grown < MAX_BYTES, "grown by {grown} bytes");
    assert_eq!(node.web.get(&path).await.body.len(), size);
}

/// The node's resident memory in bytes (`VmRSS:`), or its peak (`VmHWM:`).
fn resident(node: &SingleNode, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.up.pid())).expect("a process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(which))
        .expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[tokio::test]
async fn zips_of_one_caller_do_not_delay_another() {
    const FLOOD: usize = 32;
    let node = SingleNode::up(&[]);
    // Its last entry is invalid, and is found only after all others are unpacked.
    let noise: Vec<u8> = (0..8192u32)
        .flat_map(|n| Sha256::digest(n.to_le_bytes()))
        .collect();
    let mut zip = ZipBuilder::new().file("noise", 0o644, &noise);
    for n in 0..8 {
        zip = zip.file(&format!("zeros{n}"), 0o644, &vec![0; 7 << 20]);
    }
    let zip = zip.link("z", "/etc/passwd").bytes();
    let hash = sha256_hex(&zip);
    let put = node
        .web
        .request("PUT", &format!("/api/v1/blobs/{hash}"))
        .body(zip);
    assert_eq!(HttpResponse::of(put).await.status, 201);
    let task: Arc<Value> = Arc::new(json!({"execute": {"command": "true"}, "data": {"zip": {"blob": hash}}}));
    let web = Arc::new(RawHttpClient::new(&node.system.url("")));
    // Not counting zips that waited too long; their number depends on the machine.
    let unpacked = Arc::new(AtomicUsize::new(0));
    let mut flood = JoinSet::new();
    for _ in 0..FLOOD {
        let (task, web, unpacked) = (task.clone(), web.clone(), unpacked.clone());
        flood.spawn(async move {
            let answer = web.post("/api/v1/tasks", &task).await;
            if answer.status == 422 {
                unpacked.fetch_add(1, Ordering::Relaxed);
            }
            answer
        });
    }
    wait_until("the first to be unpacked", TIMEOUT, async || {
        (unpacked.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;
    let small = inline(&ZipBuilder::new().file("hello", 0o644, b"hello").bytes());
    let task = json!({"execute": {"command": "cat data/hello"}, "data": small});
    let added = other(&node).post("/api/v1/tasks", &task).await;
    let ahead = unpacked.load(Ordering::Relaxed);
    assert_eq!(added.status, 201, "{}", added.text());
    assert!(ahead < FLOOD, "all {FLOOD} zips came first");
    while let Some(answer) = flood.join_next().await {
        let answer = answer.unwrap();
        match answer.status {
            422 => answer.assert_problem_at(422, "data.z", "link"),
            _ => assert!(answer.assert_problem(429)["detail"].to_string().contains("zips")),
        }
    }
}

#[tokio::test]
async fn a_zip_shared_by_all_tasks_of_a_batch_is_in_memory_once() {
    const TASKS: usize = 10;
    let node = SingleNode::up(&["--set", "gateway.max_bytes=64MiB"]);
    // The caller already holds a request: only a caller's single request may exceed the share.
    let id = add_large(&node).await;
    let mut unread = RawConnection::open(&node.system).await;
    let get = format!("GET /api/v1/tasks/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(unread.ask(&get).await.starts_with("HTTP/1.1 200 "));
    // Bytes before the zip are part of the blob, but not of the archive.
    let mut blob = vec![7; 8 << 20];
    blob.extend(ZipBuilder::new().file("hello", 0o644, b"hello").bytes());
    let hash = sha256_hex(&blob);
    let put = node
        .web
        .request("PUT", &format!("/api/v1/blobs/{hash}"))
        .body(blob);
    assert_eq!(HttpResponse::of(put).await.status, 201);
    let task = json!({"execute": {"command": "cat hello"}, "source": {"zip": {"blob": hash}}});
    let added = node
        .web
        .post("/api/v1/tasks/batch", &json!({"tasks": vec![task; TASKS]}))
        .await;
    assert_eq!(added.status, 201, "{}", added.text());
    for task in added.json()["tasks"].as_array().unwrap() {
        let path = format!("/api/v1/tasks/{}?wait=60", task["id"].as_str().unwrap());
        assert_eq!(
            other(&node).get(&path).await.json()["result"]["execute"]["stdout"],
            "hello"
        );
    }
}

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";

fn with_tokens(flags: &[&str]) -> SingleNode {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n")).expect("a file");
    SingleNode::on(system, &[flags, &["--tokens-file", text(&tokens)]].concat())
}

#[tokio::test]
async fn event_streams_of_one_user_leave_permits_for_others() {
    let node = with_tokens(&["--set", "gateway.max_waiting=8"]);
    let gate = node.gate("gate");
    let add = async |token: &str| {
        let request = node.web.request("POST", "/api/v1/tasks").bearer_auth(token);
        let task = json!({"execute": {"command": gate.wait()}});
        let task = HttpResponse::of(request.json(&task)).await.json();
        format!("/api/v1/tasks/{}", task["id"].as_str().unwrap())
    };
    let (of_ada, of_bob) = (add(ADA).await, add(BOB).await);
    let follow = async |path: &str, token: &str| {
        let mut socket = RawConnection::open(&node.system).await;
        let head =
            format!("GET {path}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
        let answer = socket.ask(&head).await;
        (socket, answer)
    };
    let mut follows = Vec::new();
    let refused = loop {
        let (socket, answer) = follow(&of_ada, ADA).await;
        if !answer.starts_with("HTTP/1.1 200 ") {
            break answer;
        }
        follows.push(socket);
    };
    let (_follow, answer) = follow(&of_bob, BOB).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(follows.len(), 4);
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    let wait = async |path: &str, token: &str| {
        let request = node.web.request("GET", &format!("{path}?wait=0"));
        HttpResponse::of(request.bearer_auth(token)).await
    };
    assert_eq!(wait(&of_ada, ADA).await.assert_problem(429)["limit"], "4");
    assert_eq!(wait(&of_bob, BOB).await.status, 200);
    gate.open();
}

#[tokio::test]
async fn connections_of_one_address_leave_permits_for_others() {
    let node = SingleNode::up(&["--set", "gateway.max_connections=8"]);
    let mut idle = Vec::new();
    let turned_away = loop {
        let mut socket = RawConnection::open(&node.system).await;
        let answer = socket
            .ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await;
        if !answer.starts_with("HTTP/1.1 200 ") {
            break answer;
        }
        idle.push(socket);
    };
    // The response may be lost when an unread connection is reset.
    assert!(
        turned_away.is_empty() || turned_away.starts_with("HTTP/1.1 429 "),
        "{turned_away}"
    );
    assert!(idle.len() <= 4, "{}", idle.len());
    assert_eq!(other(&node).get("/api/v1/stats").await.status, 200);
}

#[tokio::test]
async fn connections_do_not_exhaust_open_files() {
    let system = TestSystem::new().expect("a folder");
    let up = system.up_command(&[]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -Sn 200 && ulimit -Hn 512 && exec \"$0\" \"$@\""])
        .arg(up.get_program())
        .args(up.get_args());
    let up = NodeProcess::launch("up", system.folder.path(), limited).expect("conclave up serves");
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(RawConnection::open(&system).await);
    }
    let other = RawHttpClient::from_address(&system.url(""), IpAddr::from(Ipv4Addr::new(127, 0, 0, 2)));
    let command = "ulimit -Sn; ulimit -Hn";
    let task = other.run(&json!({"execute": {"command": command}})).await;
    // Commands keep the limits that the node was started with.
    assert_eq!(task["result"]["execute"]["stdout"], "200\n512\n");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", up.pid())).expect("a process");
    let open_files = limits.lines().find(|line| line.starts_with("Max open files"));
    let open_files: Vec<_> = open_files.unwrap_or_default().split_whitespace().collect();
    assert_eq!(open_files[3..5], ["512", "512"], "{limits}");
    let log = up.log();
    assert!(log.contains("connections=192"), "{log}");
}

#[tokio::test]
async fn text_searches_of_one_caller_leave_permits_for_others() {
    // More than may wait in the store for all callers.
    const SEARCHERS: usize = 200;
    let node = SingleNode::up(&["--slots", "0"]);
    // As many as one search scans.
    let task = json!({"execute": {"command": "true"}});
    let tasks = json!({"tasks": vec![task; 10_000]});
    assert_eq!(node.web.post("/api/v1/tasks/batch", &tasks).await.status, 201);
    let search = "/api/v1/tasks?text=needle";
    let web = Arc::new(RawHttpClient::new(&node.system.url("")));
    let mut flood = JoinSet::new();
    for _ in 0..SEARCHERS {
        let web = web.clone();
        flood.spawn(async move {
            loop {
                if web.get(search).await.status != 200 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
    }
    let name = "conclave_http_exhausted_total{resource=\"text_searches\",bound=\"share\"}";
    let other = other(&node);
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(other.get(search).await.status);
    }
    assert_eq!(answers, [200; 10]);
    assert!(metric(&other, name).await > 0);
    flood.shutdown().await;
}

#[tokio::test]
async fn large_request_heads_are_refused() {
    let node = SingleNode::up(&[]);
    let ask = async |length: usize| {
        let long = "x".repeat(length);
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n");
        RawConnection::open(&node.system).await.try_ask(&head).await
    };
    let answer = ask(60 << 10).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask(200 << 10).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
}
