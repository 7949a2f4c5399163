//! Blobs: kept under the hash of their bytes, and nothing else.

use cluster_tests::{Answer, Web, await_that};
use futures::stream;
use serde_json::json;
use sha2::Digest;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::stage::Stage;

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn at(hash: &str) -> String {
    format!("/api/v1/blobs/{hash}")
}

async fn put(web: &Web, hash: &str, bytes: &[u8]) -> Answer {
    Answer::of(web.request("PUT", &at(hash)).body(bytes.to_vec())).await
}

async fn head(web: &Web, hash: &str) -> Answer {
    Answer::of(web.request("HEAD", &at(hash))).await
}

#[tokio::test]
async fn blobs_are_put_and_got() {
    let stage = Stage::up(&["--set", "judicator.max_blob=1MiB"]);
    let web = &stage.web;
    assert_eq!(head(web, ABC).await.status, 404);
    web.get(&at(ABC)).await.problem(404);

    // Bytes that do not fit their name are not kept, under neither.
    let wrong = "0".repeat(64);
    let problem = put(web, &wrong, b"abc").await.problem(422);
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
    put(web, ABC, b"abd").await.problem(422);
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
        let problem = web.get(&at(name)).await.problem(422);
        assert_eq!(problem["field"], "sha256");
        put(web, name, b"abc").await.problem(422);
    }

    let large = vec![0; (1 << 20) + 1];
    let problem = put(web, &wrong, &large).await.problem(413);
    assert_eq!(
        (&problem["limit"], &problem["actual"]),
        (&json!("1048576"), &json!("1048577"))
    );
    let chunks = stream::iter((0..3).map(|_| Ok::<_, std::io::Error>(vec![0; 1 << 19])));
    let request = web.request("PUT", &at(&wrong));
    let answer = Answer::of(request.body(reqwest::Body::wrap_stream(chunks))).await;
    assert_eq!(answer.problem(413)["limit"], "1048576");
    assert_eq!(head(web, &wrong).await.status, 404);
}

#[tokio::test]
async fn a_task_finds_its_blobs_or_is_refused() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
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
        web.post("/api/v1/tasks", &task).await.blames(422, field, ABC);
    }
    assert_eq!(web.get("/api/v1/tasks").await.json()["tasks"], json!([]));
    put(web, ABC, b"abc").await;
    let task = web.run(&whole).await;
    assert_eq!(task["result"]["execute"]["stdout"], "abcabcabc");
    let zip = json!({"source": {"zip": file}, "execute": {"command": "ls"}});
    web.post("/api/v1/tasks", &zip)
        .await
        .blames(422, "source", "not a zip");
}

#[tokio::test]
async fn half_a_blob_leaves_nothing() {
    let stage = Stage::up(&[]);
    let incoming = |wanted: bool| {
        let store = stage.system.data().join("store");
        async move || {
            let found = walk(&store).iter().any(|path| path.contains("incoming/"));
            (found == wanted).then_some(())
        }
    };
    let mut half = TcpStream::connect(stage.system.http()).await.unwrap();
    let request = format!(
        "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc",
        at(ABC)
    );
    half.write_all(request.as_bytes()).await.unwrap();
    let patience = Duration::from_secs(30);
    await_that("the blob to come in", patience, incoming(true)).await;
    drop(half);
    await_that("the half blob to be removed", patience, incoming(false)).await;
    assert_eq!(head(&stage.web, ABC).await.status, 404);
    assert_eq!(put(&stage.web, ABC, b"abc").await.status, 201);
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
async fn many_may_put_the_same_at_once() {
    let stage = Stage::up(&[]);
    let bytes = vec![7; 1 << 20];
    let hash: String = sha2::Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let puts = futures::future::join_all((0..8).map(|_| put(&stage.web, &hash, &bytes))).await;
    let statuses: Vec<_> = puts.iter().map(|answer| answer.status).collect();
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 201)),
        "{statuses:?}"
    );
    assert!(stage.web.get(&at(&hash)).await.body == bytes);
}

/// Where the store keeps it.
fn file_of(stage: &Stage, hash: &str) -> PathBuf {
    let blobs = stage.system.data().join("store/blobs");
    blobs.join(&hash[..2]).join(&hash[2..])
}

/// The length stays right.
fn damage(stage: &Stage, hash: &str) {
    let path = file_of(stage, hash);
    let mut bytes = std::fs::read(&path).expect("the blob's file");
    bytes[0] ^= 1;
    std::fs::write(&path, bytes).expect("it is damaged");
}

fn name_of(bytes: &[u8]) -> String {
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_damaged_blob_is_told_and_putting_it_again_mends_it() {
    let stage = Stage::up(&["--slots", "1"]);
    let web = &stage.web;
    put(web, ABC, b"abc").await;
    damage(&stage, ABC);
    for _ in 0..2 {
        let problem = web.get(&at(ABC)).await.problem(404);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("is damaged; put it again"), "{detail}");
    }
    assert_eq!(head(web, ABC).await.status, 404);
    let task = json!({"source": {"a": {"blob": ABC}}, "execute": {"command": "cat a"}});
    web.post("/api/v1/tasks", &task).await.problem(422);
    assert_eq!(put(web, ABC, b"abc").await.status, 201);
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");

    // Nobody has met this one's damage yet.
    damage(&stage, ABC);
    put(web, ABC, b"abc").await;
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");

    // One that is larger than what is read at once: it does not come whole.
    let large = vec![b'x'; 3 << 20];
    let hash = name_of(&large);
    put(web, &hash, &large).await;
    damage(&stage, &hash);
    let got = web.request("GET", &at(&hash)).send().await.expect("an answer");
    assert!(got.bytes().await.is_err(), "it was taken for whole");
    assert_eq!(head(web, &hash).await.status, 404);

    // A task that needs it and was added before ends, and says why.
    put(web, &hash, &large).await;
    let gate = stage.gate("gate");
    let first = json!({"execute": {"command": gate.wait()}});
    web.post("/api/v1/tasks", &first).await;
    let task = json!({"source": {"a": {"blob": hash}}, "execute": {"command": "cat a"}});
    let task = web.post("/api/v1/tasks", &task).await.json();
    damage(&stage, &hash);
    gate.open();
    let id = task["id"].as_str().unwrap();
    let task = web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(task["status"], "system_error", "{task}");
    assert!(
        task["trouble"]
            .as_str()
            .unwrap()
            .contains("is damaged; put it again"),
        "{task}"
    );
}

/// Long for a task that has nothing before it, short beside the pauses of an executor that holds itself to be sick.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn tasks_with_a_damaged_blob_do_not_hold_up_the_others() {
    let stage = Stage::up(&["--slots", "2"]);
    let web = &stage.web;
    put(web, ABC, b"abc").await;
    put(web, EMPTY, b"").await;
    let gate = stage.gate("gate");
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
    damage(&stage, ABC);
    std::fs::remove_file(file_of(&stage, EMPTY)).expect("the blob's file");
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
async fn a_task_whose_bytes_are_in_the_request_mends_its_damaged_blob() {
    let stage = Stage::up(&[]);
    let input = "x".repeat(2 << 20);
    let task = json!({"execute": {"command": "wc -c", "input": input}});
    let whole = async || {
        let task = stage.web.run(&task).await;
        assert_eq!(task["status"], "success", "{task}");
        assert_eq!(task["result"]["execute"]["stdout"], "2097152\n", "{task}");
    };
    whole().await;
    let hash = name_of(input.as_bytes());
    damage(&stage, &hash);
    // The executor would not ask for what it has.
    let cached = stage.system.data().join("executor/cache").join(&hash);
    std::fs::remove_file(cached).expect("the executor has cached it");
    whole().await;
}

#[tokio::test]
async fn damage_that_a_reader_finds_is_counted_at_once() {
    let stage = Stage::up(&[]);
    let web = &stage.web;
    put(web, ABC, b"abc").await;
    let counted = async |damaged: u64| {
        let line = format!("conclave_blobs_damaged {damaged}");
        await_that(&line, SOON, async || {
            let page = web.get("/metrics").await.text();
            page.lines().any(|found| found == line).then_some(())
        })
        .await;
    };
    counted(0).await;
    damage(&stage, ABC);
    web.get(&at(ABC)).await.problem(404);
    counted(1).await;
    put(web, ABC, b"abc").await;
    counted(0).await;
}

#[tokio::test]
async fn a_scan_finds_damage_and_removes_orphans() {
    let stage = Stage::up(&["--set", "judicator.scan_blobs=1s"]);
    let web = &stage.web;
    put(web, ABC, b"abc").await;
    put(web, EMPTY, b"").await;
    let orphan = file_of(&stage, &name_of(b"orphan"));
    std::fs::create_dir_all(orphan.parent().unwrap()).expect("a folder");
    std::fs::write(&orphan, "orphan").expect("a file");
    damage(&stage, ABC);
    await_that("both to be counted", Duration::from_secs(60), async || {
        let page = web.get("/metrics").await.text();
        let counted = |line: &str| page.lines().any(|found| found == line);
        (counted("conclave_blobs_damaged 1") && counted("conclave_blobs_orphaned_total 1")).then_some(())
    })
    .await;
    assert!(!orphan.exists());
    assert_eq!(head(web, ABC).await.status, 404);
    assert_eq!(head(web, EMPTY).await.status, 200);
    // Mended, it counts no more.
    put(web, ABC, b"abc").await;
    await_that("no damage to be counted", Duration::from_secs(60), async || {
        let page = web.get("/metrics").await.text();
        page.lines()
            .any(|line| line == "conclave_blobs_damaged 0")
            .then_some(())
    })
    .await;
    assert_eq!(web.get(&at(ABC)).await.body, b"abc");
}
