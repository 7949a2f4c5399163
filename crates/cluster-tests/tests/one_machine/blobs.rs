//! Blobs: stored under the SHA-256 of their bytes.

use cluster_tests::{HttpResponse, RawHttpClient, wait_until};
use futures::stream;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{SingleNode, sha256_hex};

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn at(hash: &str) -> String {
    format!("/api/v1/blobs/{hash}")
}

async fn put(web: &RawHttpClient, hash: &str, bytes: &[u8]) -> HttpResponse {
    HttpResponse::of(web.request("PUT", &at(hash)).body(bytes.to_vec())).await
}

async fn head(web: &RawHttpClient, hash: &str) -> HttpResponse {
    HttpResponse::of(web.request("HEAD", &at(hash))).await
}

#[tokio::test]
async fn blobs_are_uploaded_and_downloaded() {
    let node = SingleNode::up(&["--set", "judicator.max_blob=1MiB"]);
    let web = &node.web;
    assert_eq!(head(web, ABC).await.status, 404);
    web.get(&at(ABC)).await.assert_problem(404);

    // Bytes that do not match their hash are not stored, under neither hash.
    let wrong = "0".repeat(64);
    let problem = put(web, &wrong, b"abc").await.assert_problem(422);
    assert_eq!(
        (&problem["field"], &problem["actual"]),
        (&json!("sha256"), &json!(ABC))
    );
    for hash in [wrong.as_str(), ABC] {
        assert_eq!(head(web, hash).await.status, 404);
    }

    let answer = put(web, ABC, b"abc").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (201, at(ABC).as_str())
    );
    assert_eq!(put(web, ABC, b"abc").await.status, 200);
    put(web, ABC, b"abd").await.assert_problem(422);
    let answer = head(web, ABC).await;
    assert_eq!((answer.status, answer.header("content-length")), (200, "3"));
    let answer = web.get(&at(ABC)).await;
    assert_eq!(answer.body, b"abc");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");

    assert_eq!(put(web, EMPTY, b"").await.status, 201);
    assert_eq!(web.get(&at(EMPTY)).await.body, b"");
    assert_eq!(head(web, EMPTY).await.header("content-length"), "0");

    for name in [
        "abc",
        &ABC.to_uppercase(),
        &ABC[1..],
        "%FF",
        "..%2f..%2fetc%2fpasswd",
    ] {
        let problem = web.get(&at(name)).await.assert_problem(422);
        assert_eq!(problem["field"], "sha256");
        put(web, name, b"abc").await.assert_problem(422);
    }

    let large = vec![0; (1 << 20) + 1];
    let problem = put(web, &wrong, &large).await.assert_problem(413);
    assert_eq!(
        (&problem["limit"], &problem["actual"]),
        (&json!("1048576"), &json!("1048577"))
    );
    let chunks = stream::iter((0..3).map(|_| Ok::<_, std::io::Error>(vec![0; 1 << 19])));
    let request = web.request("PUT", &at(&wrong));
    let answer = HttpResponse::of(request.body(reqwest::Body::wrap_stream(chunks))).await;
    assert_eq!(answer.assert_problem(413)["limit"], "1048576");
    assert_eq!(head(web, &wrong).await.status, 404);
}

#[tokio::test]
async fn a_task_with_unknown_blobs_is_refused() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let file = json!({"blob": ABC});
    let command = json!({"command": "cat f data/f -", "input": file});
    let whole = json!({"source": {"f": file}, "data": {"f": file}, "execute": command});
    for (task, field) in [
        (whole.clone(), "source.f.blob"),
        (json!({"data": {"f": file}, "execute": command}), "data.f.blob"),
        (json!({"execute": command}), "execute.input.blob"),
        (
            json!({"source": {"zip": file}, "execute": {"command": "ls"}}),
            "source.zip.blob",
        ),
    ] {
        web.post("/api/v1/tasks", &task)
            .await
            .assert_problem_at(422, field, ABC);
    }
    assert_eq!(web.get("/api/v1/tasks").await.json()["tasks"], json!([]));
    put(web, ABC, b"abc").await;
    let task = web.run(&whole).await;
    assert_eq!(task["result"]["execute"]["stdout"], "abcabcabc");
    let zip = json!({"source": {"zip": file}, "execute": {"command": "ls"}});
    web.post("/api/v1/tasks", &zip)
        .await
        .assert_problem_at(422, "source", "not a zip");
}

#[tokio::test]
async fn an_interrupted_upload_leaves_nothing() {
    let node = SingleNode::up(&[]);
    let incoming = |wanted: bool| {
        let store = node.system.data().join("store");
        async move || {
            let found = walk(&store).iter().any(|path| path.contains("incoming/"));
            (found == wanted).then_some(())
        }
    };
    let mut half = TcpStream::connect(node.system.http()).await.unwrap();
    let request = format!(
        "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc",
        at(ABC)
    );
    half.write_all(request.as_bytes()).await.unwrap();
    let patience = Duration::from_secs(30);
    wait_until("the blob to come in", patience, incoming(true)).await;
    drop(half);
    wait_until("the half blob to be removed", patience, incoming(false)).await;
    assert_eq!(head(&node.web, ABC).await.status, 404);
    assert_eq!(put(&node.web, ABC, b"abc").await.status, 201);
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn concurrent_uploads_of_the_same_blob_succeed() {
    let node = SingleNode::up(&[]);
    let bytes = vec![7; 1 << 20];
    let hash = sha256_hex(&bytes);
    let puts = futures::future::join_all((0..8).map(|_| put(&node.web, &hash, &bytes))).await;
    let statuses: Vec<_> = puts.iter().map(|answer| answer.status).collect();
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 201)),
        "{statuses:?}"
    );
    assert!(node.web.get(&at(&hash)).await.body == bytes);
}

/// The file of the blob in the store.
fn file_of(node: &SingleNode, hash: &str) -> PathBuf {
    let blobs = node.system.data().join("store/blobs");
    blobs.join(&hash[..2]).join(&hash[2..])
}

/// Overwrites bytes of the blob without changing its length.
fn damage(node: &SingleNode, hash: &str) {
    let path = file_of(node, hash);
    let mut bytes = std::fs::read(&path).expect("the blob's file");
    bytes[0] ^= 1;
    std::fs::write(&path, bytes).expect("it is damaged");
}

#[tokio::test]
async fn a_damaged_blob_is_reported_and_uploading_it_again_repairs_it() {
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    put(web, ABC, b"abc").await;
    damage(&node, ABC);
    for _ in 0..2 {
        let problem = web.get(&at(ABC)).await.assert_problem(404);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("is damaged; put it again"), "{detail}");
    }
    assert_eq!(head(web, ABC).await.status, 404);
    let task = json!({"source": {"a": {"blob": ABC}}, "execute": {"command": "cat a"}});
    web.post("/api/v1/tasks", &task).await.assert_problem(422);
    assert_eq!(put(web, ABC, b"abc").await.status, 201);
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");

    // The damage of this blob is not known yet.
    damage(&node, ABC);
    put(web, ABC, b"abc").await;
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");

    // A blob that is larger than one read: the download is incomplete.
    let large = vec![b'x'; 3 << 20];
    let hash = sha256_hex(&large);
    put(web, &hash, &large).await;
    damage(&node, &hash);
    let got = web.request("GET", &at(&hash)).send().await.expect("an answer");
    assert!(got.bytes().await.is_err(), "it was taken for whole");
    assert_eq!(head(web, &hash).await.status, 404);

    // A task that was added before and needs the blob ends with the reason.
    put(web, &hash, &large).await;
    let gate = node.gate("gate");
    let first = json!({"execute": {"command": gate.wait()}});
    web.post("/api/v1/tasks", &first).await;
    let task = json!({"source": {"a": {"blob": hash}}, "execute": {"command": "cat a"}});
    let task = web.post("/api/v1/tasks", &task).await.json();
    damage(&node, &hash);
    gate.open();
    let id = task["id"].as_str().unwrap();
    let task = web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(task["status"], "system_error", "{task}");
    assert!(
        task["trouble"]
            .as_str()
            .unwrap()
            .contains("is damaged in the store; put it again"),
        "{task}"
    );
}

/// Long for a task without a queue, but shorter than the pauses of an executor in failure backoff.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn tasks_with_a_damaged_blob_do_not_delay_others() {
    let node = SingleNode::up(&["--slots", "2"]);
    let web = &node.web;
    put(web, ABC, b"abc").await;
    put(web, EMPTY, b"").await;
    let gate = node.gate("gate");
    for _ in 0..2 {
        let first = json!({"execute": {"command": gate.wait()}});
        web.post("/api/v1/tasks", &first).await;
    }
    let mut lost = Vec::new();
    for count in 0..40 {
        let blob = if count % 2 == 0 { ABC } else { EMPTY };
        let task = json!({"execute": {"command": "cat", "input": {"blob": blob}}});
        lost.push(web.post("/api/v1/tasks", &task).await.json());
    }
    let healthy = json!({"execute": {"command": "echo done"}});
    let healthy = web.post("/api/v1/tasks", &healthy).await.json();
    damage(&node, ABC);
    std::fs::remove_file(file_of(&node, EMPTY)).expect("the blob's file");
    gate.open();
    let began = Instant::now();
    let done = async |task: &serde_json::Value| {
        let id = task["id"].as_str().expect("an id");
        web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json()
    };
    let healthy = done(&healthy).await;
    assert_eq!(healthy["status"], "success", "{healthy}");
    for task in &lost {
        let task = done(task).await;
        assert_eq!(task["status"], "system_error", "{task}");
        let trouble = task["trouble"].as_str().expect("a reason");
        assert!(trouble.contains("put it again"), "{task}");
    }
    let took = began.elapsed();
    println!("all were done after {took:?}");
    assert!(took < SOON, "{took:?}");
}

#[tokio::test]
async fn a_task_with_the_bytes_in_its_request_repairs_a_damaged_blob() {
    let node = SingleNode::up(&[]);
    let input = "x".repeat(2 << 20);
    let task = json!({"execute": {"command": "wc -c", "input": input}});
    let whole = async || {
        let task = node.web.run(&task).await;
        assert_eq!(task["status"], "success", "{task}");
        assert_eq!(task["result"]["execute"]["stdout"], "2097152\n", "{task}");
    };
    whole().await;
    let hash = sha256_hex(input.as_bytes());
    damage(&node, &hash);
    // The executor would not fetch what it has cached.
    let cached = node.system.data().join("executor/cache").join(&hash);
    std::fs::remove_file(cached).expect("the executor has cached it");
    whole().await;
}

#[tokio::test]
async fn damage_found_by_a_download_is_counted_at_once() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    put(web, ABC, b"abc").await;
    let counted = async |damaged: u64| {
        let line = format!("conclave_blobs_damaged {damaged}");
        wait_until(&line, SOON, async || {
            let page = web.get("/metrics").await.text();
            page.lines().any(|found| found == line).then_some(())
        })
        .await;
    };
    counted(0).await;
    damage(&node, ABC);
    web.get(&at(ABC)).await.assert_problem(404);
    counted(1).await;
    put(web, ABC, b"abc").await;
    counted(0).await;
}

#[tokio::test]
async fn a_scan_finds_damage_and_removes_orphans() {
    let node = SingleNode::up(&["--set", "judicator.scan_blobs=1s"]);
    let web = &node.web;
    put(web, ABC, b"abc").await;
    put(web, EMPTY, b"").await;
    let orphan = file_of(&node, &sha256_hex(b"orphan"));
    std::fs::create_dir_all(orphan.parent().unwrap()).expect("a folder");
    std::fs::write(&orphan, "orphan").expect("a file");
    damage(&node, ABC);
    wait_until("both to be counted", Duration::from_secs(60), async || {
        let page = web.get("/metrics").await.text();
        let counted = |line: &str| page.lines().any(|found| found == line);
        (counted("conclave_blobs_damaged 1") && counted("conclave_blobs_orphaned_total 1")).then_some(())
    })
    .await;
    assert!(!orphan.exists());
    assert_eq!(head(web, ABC).await.status, 404);
    assert_eq!(head(web, EMPTY).await.status, 200);
    // A repaired blob is no longer counted.
    put(web, ABC, b"abc").await;
    wait_until("no damage to be counted", Duration::from_secs(60), async || {
        let page = web.get("/metrics").await.text();
        page.lines()
            .any(|line| line == "conclave_blobs_damaged 0")
            .then_some(())
    })
    .await;
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");
}
