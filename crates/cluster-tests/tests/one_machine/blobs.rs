//! Blobs: kept under the hash of their bytes, and nothing else.

use cluster_tests::{Answer, Web, await_that};
use futures::stream;
use serde_json::json;
use sha2::Digest;
use std::time::Duration;
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
