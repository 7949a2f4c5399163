//! Output that is followed while it is written: as bytes at its URL, and as events.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_tests::{ReceivedEvent, StreamedResponse, wait_until};
use serde_json::{Value, json};

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(60);
const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

pub(crate) async fn add(node: &SingleNode, task: &Value) -> String {
    let answer = node.web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

pub(crate) async fn follow(node: &SingleNode, id: &str, rest: &str) -> StreamedResponse {
    let path = format!("/api/v1/tasks/{id}/{rest}");
    StreamedResponse::open(node.web.request("GET", &path)).await
}

async fn status(node: &SingleNode, id: &str) -> String {
    let task = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
    task["status"].as_str().expect("a status").to_string()
}

#[tokio::test]
async fn output_is_followed_from_the_first_byte_to_the_end() {
    for isolation in ["none", "cell"] {
        // Cells see the gate through a bind.
        let system = cluster_tests::TestSystem::new().expect("a folder");
        let folder = system.folder.path().join("gates");
        std::fs::create_dir(&folder).expect("a folder");
        let bind = format!("sandbox.binds={}", folder.display());
        let node = SingleNode::on(system, &["--isolation", isolation, "--set", &bind]);
        let (first, second) = (node.gate("gates/first"), node.gate("gates/second"));
        let command = format!(
            "printf 'one\\n'; printf 'e\\377\\0' >&2; {}; printf two; {}; printf 'three\\n'; printf f >&2",
            first.wait(),
            second.wait()
        );
        let id = add(&node, &json!({"execute": {"command": command}})).await;
        let mut out = follow(&node, &id, "execute/stdout?follow=true&offset=0").await;
        let mut err = follow(&node, &id, "execute/stderr?follow").await;
        assert_eq!((out.status, err.status), (200, 200));
        let header = |name: &str| out.headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
        assert_eq!(header("content-security-policy"), Some("sandbox"));
        assert_eq!(header("content-length"), None);
        out.wait_for("the first line", |bytes| bytes == b"one\n").await;
        err.wait_for("the first error", |bytes| bytes == b"e\xff\0").await;
        first.open();
        out.wait_for("the second part", |bytes| bytes == b"one\ntwo")
            .await;
        // A follower that comes late gets what there is, then what follows; with an offset from there on.
        let mut late = follow(&node, &id, "execute/stdout?follow=true").await;
        let mut within = follow(&node, &id, "execute/stdout?follow=true&offset=2").await;
        let mut ahead = follow(&node, &id, "execute/stdout?follow=true&offset=7").await;
        late.wait_for("what there is", |bytes| bytes == b"one\ntwo").await;
        within.wait_for("the rest", |bytes| bytes == b"e\ntwo").await;
        assert!(!out.has_ended() && !err.has_ended());
        second.open();
        ahead.wait_for("what follows", |bytes| bytes == b"three\n").await;
        for (follower, expected) in [
            (out, &b"one\ntwothree\n"[..]),
            (late, b"one\ntwothree\n"),
            (within, b"e\ntwothree\n"),
            (ahead, b"three\n"),
            (err, b"e\xff\0f"),
        ] {
            assert_eq!(follower.complete().await, expected, "{isolation}");
        }
        // A follower of a done task gets the result at once.
        for (rest, expected) in [
            ("execute/stdout?follow=true", &b"one\ntwothree\n"[..]),
            ("execute/stdout?follow=true&offset=8", b"hree\n"),
            ("execute/stdout?follow=true&offset=13", b""),
            ("execute/stdout?follow=false", b"one\ntwothree\n"),
            ("execute/stderr?follow", b"e\xff\0f"),
        ] {
            let follower = follow(&node, &id, rest).await;
            assert_eq!(follower.complete().await, expected, "{rest}");
        }
    }
}

#[tokio::test]
async fn a_queued_task_is_followed_once_it_runs() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    let before = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    wait_until("the first task to run", TIMEOUT, async || {
        (status(&node, &before).await == "running").then_some(())
    })
    .await;
    let id = add(&node, &json!({"execute": {"command": "echo ran"}})).await;
    let follower = follow(&node, &id, "execute/stdout?follow=true").await;
    assert_eq!(follower.status, 200);
    assert_eq!(status(&node, &id).await, "pending");
    assert!(!follower.has_ended());
    gate.open();
    assert_eq!(follower.complete().await, b"ran\n");
}

#[tokio::test]
async fn a_follower_ends_with_its_step() {
    let node = SingleNode::up(&[]);
    let (compile, run) = (node.gate("compile"), node.gate("run"));
    let task = json!({
        "compile": {"command": format!("echo compiling; echo warning >&2; {}; echo compiled", compile.wait())},
        "execute": {"command": format!("echo running; {}; echo ran", run.wait())},
    });
    let id = add(&node, &task).await;
    let mut compiling = follow(&node, &id, "compile/stdout?follow=true").await;
    let mut warnings = follow(&node, &id, "compile/stderr?follow=true").await;
    let mut running = follow(&node, &id, "execute/stdout?follow=true").await;
    compiling
        .wait_for("the compiler", |bytes| bytes == b"compiling\n")
        .await;
    warnings
        .wait_for("a warning", |bytes| bytes == b"warning\n")
        .await;
    compile.open();
    running
        .wait_for("the program", |bytes| bytes == b"running\n")
        .await;
    // The compile step has ended, the task has not.
    assert_eq!(compiling.complete().await, b"compiling\ncompiled\n");
    assert_eq!(warnings.complete().await, b"warning\n");
    // Output may be here before the report that says that the step runs.
    wait_until("the task to run", TIMEOUT, async || {
        (status(&node, &id).await == "running").then_some(())
    })
    .await;
    // Somebody who follows the ended step of a running task gets all of it.
    let again = follow(&node, &id, "compile/stdout?follow=true").await;
    assert_eq!(again.complete().await, b"compiling\ncompiled\n");
    run.open();
    assert_eq!(running.complete().await, b"running\nran\n");

    // The execute step of a task that does not compile never begins; its follower does not wait for ever.
    let task = json!({
        "compile": {"command": "echo oops; exit 1"},
        "execute": {"command": "echo never"},
    });
    let id = add(&node, &task).await;
    let never = follow(&node, &id, "execute/stdout?follow=true").await;
    if never.status == 200 {
        assert_eq!(never.end().await.1, b"");
    } else {
        assert_eq!(never.status, 404);
    }
}

#[tokio::test]
async fn a_cancelled_task_ends_its_followers() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("gate");
    let command = format!("echo begun; {}", gate.wait());
    let id = add(&node, &json!({"execute": {"command": command}})).await;
    let mut follower = follow(&node, &id, "execute/stdout?follow=true").await;
    let mut events = follow(&node, &id, "events?output=true").await;
    follower
        .wait_for("the first line", |bytes| bytes == b"begun\n")
        .await;
    events
        .wait_for("the first line", |bytes| {
            String::from_utf8_lossy(bytes).contains("begun")
        })
        .await;
    assert_eq!(node.web.delete(&format!("/api/v1/tasks/{id}")).await.status, 200);
    assert_eq!(follower.end().await.1, b"begun\n");
    let events = ReceivedEvent::parse_all(&events.complete().await);
    assert_eq!(events.last().expect("events").data["status"], "cancelled");
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_followed() {
    let node = SingleNode::up(&[]);
    let done = node.web.run(&json!({"execute": {"command": "true"}})).await;
    let done = done["id"].as_str().expect("an id");
    let gate = node.gate("gate");
    let running = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    for (id, rest, code) in [
        (UNKNOWN, "execute/stdout?follow=true", 404),
        (UNKNOWN, "events?output=true", 404),
        (done, "execute/stdin?follow=true", 404),
        (done, "run/stdout?follow=true", 404),
        (done, "execute/stdout?follow=perhaps", 422),
        (done, "execute/stdout?follow=true&offset=-1", 422),
        (done, "execute/stdout?follow=true&offset=x", 422),
        (done, "events?output=perhaps", 422),
    ] {
        let answer = node.web.get(&format!("/api/v1/tasks/{id}/{rest}")).await;
        assert_eq!(answer.status, code, "{rest}: {}", answer.text());
        answer.assert_problem(code);
    }
    // A step that the task does not have ends at once.
    for id in [done, &running] {
        let follower = follow(&node, id, "compile/stdout?follow=true").await;
        assert_eq!(follower.complete().await, b"");
    }
    gate.open();
}

/// The bytes of one stream, as the output events carry them. Asserts that they have no gaps.
fn bytes_of(events: &[ReceivedEvent], step: &str, stream: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ReceivedEvent { name, data } in events {
        if name != "output" || data["step"] != step || data["stream"] != stream {
            continue;
        }
        assert_eq!(data["offset"], bytes.len(), "{events:?}");
        assert_eq!(data["attempt"], 1);
        match (&data["text"], &data["base64"]) {
            (Value::String(text), Value::Null) => bytes.extend_from_slice(text.as_bytes()),
            (Value::Null, Value::String(text)) => bytes.extend(STANDARD.decode(text).expect("base64")),
            _ => panic!("neither text nor base64: {data}"),
        }
    }
    bytes
}

#[tokio::test]
async fn events_carry_output_of_both_steps() {
    let node = SingleNode::up(&[]);
    let (half, rest) = (node.gate("half"), node.gate("rest"));
    // A character that is cut in two by a pause, bytes that are never text, and lines that look like events.
    let command = format!(
        "printf 'h\\303'; {}; printf '\\251\\n\\n\\ndata: x\\r\\n'; printf '\\377\\376' >&2; {}; printf 'end\\342\\202'",
        half.wait(),
        rest.wait()
    );
    let task = json!({"compile": {"command": "echo compiled >&2"}, "execute": {"command": command}});
    let id = add(&node, &task).await;
    let mut events = follow(&node, &id, "events?output=true").await;
    let plain = follow(&node, &id, "events").await;
    let seen = |stream: &'static str, expected: &'static [u8]| {
        move |bytes: &[u8]| bytes_of(&ReceivedEvent::parse_all(bytes), "execute", stream) == expected
    };
    events
        .wait_for("the first character", |bytes| {
            bytes_of(&ReceivedEvent::parse_all(bytes), "execute", "stdout").starts_with(b"h")
        })
        .await;
    half.open();
    events
        .wait_for(
            "the whole character",
            seen("stdout", "hé\n\n\ndata: x\r\n".as_bytes()),
        )
        .await;
    events
        .wait_for("what is no text", seen("stderr", b"\xff\xfe"))
        .await;
    rest.open();
    let events = ReceivedEvent::parse_all(&events.complete().await);
    assert_eq!(
        bytes_of(&events, "execute", "stdout"),
        b"h\xc3\xa9\n\n\ndata: x\r\nend\xe2\x82"
    );
    assert_eq!(bytes_of(&events, "execute", "stderr"), b"\xff\xfe");
    assert_eq!(bytes_of(&events, "compile", "stderr"), b"compiled\n");
    assert_eq!(bytes_of(&events, "compile", "stdout"), b"");
    // A character is never cut by us: only what the program wrote is no text.
    let texts = events.iter().filter(|event| event.data["text"].is_string());
    for event in texts {
        let text = event.data["text"].as_str().expect("text");
        assert!(!text.contains('\u{fffd}'), "{event:?}");
    }
    // The end comes last, after all output.
    let last = events.last().expect("events");
    assert_eq!(
        (&last.data["status"], &last.data["done"]),
        (&json!("success"), &json!(true))
    );
    // Who does not ask for output gets none.
    let plain = ReceivedEvent::parse_all(&plain.complete().await);
    assert!(plain.iter().all(|event| event.name != "output"), "{plain:?}");

    // A stream of a done task has its output, too.
    let later = follow(&node, &id, "events?output=true").await;
    let later = ReceivedEvent::parse_all(&later.complete().await);
    assert_eq!(
        bytes_of(&later, "execute", "stdout"),
        b"h\xc3\xa9\n\n\ndata: x\r\nend\xe2\x82"
    );
    assert_eq!(later.last().expect("events").data["done"], true);
}

/// Prints the time from a write in the program to its arrival at the follower. The bound is checked by the benchmark.
#[tokio::test]
async fn the_latency_of_live_output_is_printed() {
    const LINES: usize = 40;
    let node = SingleNode::up(&[]);
    let command = format!("for i in $(seq {LINES}); do printf '%s\\n' $EPOCHREALTIME; sleep 0.03; done");
    let id = add(&node, &json!({"execute": {"command": ["bash", "-c", command]}})).await;
    let mut follower = follow(&node, &id, "execute/stdout?follow=true").await;
    let mut delays = Vec::new();
    for line in 1..=LINES {
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        follower
            .wait_for("the next line", |bytes| count(bytes) >= line)
            .await;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a time")
            .as_secs_f64();
        let text = String::from_utf8(follower.received()).expect("text");
        let written: f64 = text
            .lines()
            .nth(line - 1)
            .expect("a line")
            .parse()
            .expect("a time");
        delays.push(now - written);
    }
    delays.sort_by(f64::total_cmp);
    println!(
        "from write to follower: median {:.1} ms, longest {:.1} ms",
        delays[LINES / 2] * 1e3,
        delays[LINES - 1] * 1e3
    );
}
