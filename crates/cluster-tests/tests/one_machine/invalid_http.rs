//! Endless bodies and bytes that are not HTTP. The server must not crash or use much memory.

use cluster_tests::{HttpResponse, RawHttpClient, TestSystem};
use futures::future::join_all;
use serde_json::json;

use crate::harness::{SingleNode, text};
use crate::raw_connection::RawConnection;

const TASKS: &str = "/api/v1/tasks";

/// The peak memory of a process in bytes.
fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the node lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("VmHWM") << 10
}

async fn assert_healthy(node: &SingleNode) {
    let task = node.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
    assert!(!node.up.log().contains("panicked"), "{}", node.up.log());
}

#[tokio::test]
async fn huge_bodies_are_refused_early() {
    let node = SingleNode::up(&[]);
    let two_gib = 2u64 << 30;
    let part = vec![b'['; 1 << 20];
    let json = format!("POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let form = format!(
        "POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    );
    let batch = "POST /api/v1/tasks/batch HTTP/1.1\r\nHost: localhost\r\n".to_string();
    let blob = format!(
        "PUT /api/v1/blobs/{} HTTP/1.1\r\nHost: localhost\r\n",
        "0".repeat(64)
    );
    for (head, limit) in [
        (&json, 64 << 20),
        (&form, 64 << 20),
        (&batch, 64 << 20),
        (&blob, 1u64 << 30),
    ] {
        // The length is announced, and the body is sent nevertheless.
        let said = format!("{head}Content-Length: {two_gib}\r\n\r\n");
        let answer = RawConnection::open(&node.system)
            .await
            .send(said.as_bytes(), &part, 2048)
            .await;
        let problem = answer.expect("an answer before the end").assert_problem(413);
        assert_eq!(problem["limit"], limit.to_string(), "{head}");
        assert_eq!(problem["actual"], two_gib.to_string(), "{head}");
        // With `Expect: 100-continue` the request is refused before its body.
        let asked = format!("{head}Content-Length: {two_gib}\r\nExpect: 100-continue\r\n\r\n");
        let answer = RawConnection::open(&node.system)
            .await
            .send(asked.as_bytes(), b"", 0)
            .await;
        answer.expect("an answer").assert_problem(413);
    }
    // A chunked body without end.
    let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), &part, b"\r\n"].concat();
    for head in [&json, &batch] {
        let endless = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
        let answer = RawConnection::open(&node.system)
            .await
            .send(endless.as_bytes(), &chunk, 1 << 20)
            .await;
        let problem = answer.expect("an answer before the end").assert_problem(413);
        assert_eq!(problem["limit"], (64 << 20).to_string());
    }
    let opening = "--b\r\nContent-Disposition: form-data; name=\"source\"; filename=\"f\"\r\n\r\n";
    let endless = format!(
        "{form}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{opening}\r\n",
        opening.len()
    );
    let answer = RawConnection::open(&node.system)
        .await
        .send(endless.as_bytes(), &chunk, 1 << 20)
        .await;
    answer.expect("an answer before the end").assert_problem(413);
    let peak = peak_memory(node.up.pid());
    assert!(peak < 700 << 20, "the node took {} MiB", peak >> 20);
    assert_healthy(&node).await;
}

#[tokio::test]
async fn malformed_requests_are_survived() {
    let node = SingleNode::up(&[]);
    let noise: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let huge_head = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 2 << 20]].concat();
    let many_heads = [
        b"GET / HTTP/1.1\r\n".to_vec(),
        b"A: b\r\n".repeat(10_000),
        b"\r\n".to_vec(),
    ]
    .concat();
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(200_000));
    // (what is sent, the allowed statuses; none: the connection may be closed without a response)
    let cases: Vec<(&[u8], &[u16])> = vec![
        (&noise, &[400]),
        (b"\r\n\r\n\r\n", &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[400, 505]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400, 505]),
        (b"GET\r\n\r\n", &[400]),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", &[400, 404]),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA\0B: c\r\n\r\n", &[400]),
        (&huge_head, &[400, 431]),
        (&many_heads, &[400, 431]),
        (long_path.as_bytes(), &[400, 404, 414, 431]),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            &[400],
        ),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
            &[400, 413],
        ),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            &[400],
        ),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            &[400],
        ),
        (
            b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"execute\"",
            &[400],
        ),
        (
            b"GET /api/v1/tasks?%zz=%FF%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            &[400, 422],
        ),
        (
            b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            &[200, 204, 400, 404, 405],
        ),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", &[400, 404, 405]),
    ];
    for (bytes, statuses) in &cases {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        if let Some(answer) = RawConnection::open(&node.system).await.send(bytes, b"", 0).await {
            assert!(statuses.contains(&answer.status), "{start:?}: {answer:?}");
        }
    }
    // All of them at once, repeatedly, with clients that disconnect in the middle.
    let all = (0..10).flat_map(|_| cases.iter());
    join_all(all.map(async |(bytes, _)| {
        let half = &bytes[..bytes.len() / 2];
        RawConnection::open(&node.system).await.send(half, b"", 0).await
    }))
    .await;
    assert_eq!(node.web.get(TASKS).await.json()["tasks"], json!([]));
    assert_healthy(&node).await;
}

#[tokio::test]
async fn unsupported_content_types_are_refused() {
    let node = SingleNode::up(&[]);
    let task = r#"{"execute": {"command": "true"}}"#;
    let post = |path: &'static str, kind: &'static [u8]| {
        let request = node.web.request("POST", path);
        HttpResponse::of(request.header("Content-Type", kind).body(task))
    };
    for kind in [
        &b"text/plain"[..],
        b"application/x-www-form-urlencoded",
        b"application/jsonp",
        b"\xff",
        b"json",
    ] {
        let problem = post(TASKS, kind).await.assert_problem(415);
        assert_eq!(problem["field"], "Content-Type");
        assert!(
            problem["limit"].as_str().unwrap().contains("application/json"),
            "{problem}"
        );
        post("/api/v1/tasks/batch", kind).await.assert_problem(415);
    }
    for kind in [&b"application/json"[..], b"Application/JSON; charset=utf-8"] {
        assert_eq!(post(TASKS, kind).await.status, 201);
    }
}

#[tokio::test]
async fn early_refusals_are_readable_while_the_body_is_sent() {
    let system = TestSystem::new().unwrap();
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, "a-token-long-enough ada\n").unwrap();
    let up = system.up(&["--tokens-file", text(&tokens)]).unwrap();
    let web = RawHttpClient::new(&system.url(""));
    let body = vec![b'['; 20 << 20];
    let hash = "0".repeat(64);
    // All of these are refused by the head of the request, while the client still sends its body.
    for (method, path, header, status) in [
        ("POST", TASKS, ("X-Nothing", "x"), 401),
        ("POST", TASKS, ("Origin", "http://evil.example"), 403),
        ("POST", TASKS, ("Content-Type", "text/plain"), 415),
        ("POST", "/api/v1/tasks/batch", ("Content-Type", "text/plain"), 415),
        ("POST", "/api/v1/tasks?wait=soon", ("X-Nothing", "x"), 422),
        ("POST", TASKS, ("Idempotency-Key", ""), 422),
        ("POST", "/api/v1/nowhere", ("X-Nothing", "x"), 404),
        ("PATCH", TASKS, ("X-Nothing", "x"), 405),
        ("PUT", "/api/v1/blobs/short", ("X-Nothing", "x"), 422),
        ("PUT", &format!("/api/v1/blobs/{hash}"), ("X-Nothing", "x"), 422),
    ] {
        for _ in 0..3 {
            let mut request = web.request(method, path).header(header.0, header.1);
            if status != 401 {
                request = request.bearer_auth("a-token-long-enough");
            }
            HttpResponse::of(request.body(body.clone()))
                .await
                .assert_problem(status);
        }
    }
    drop(up);
}
