//! Output of steps: as text in JSON, and as raw bytes at its own URL.

use cluster_tests::{HttpResponse, RawHttpClient};
use serde_json::{Value, json};

use crate::harness::SingleNode;

async fn raw(web: &RawHttpClient, task: &Value, output: &str) -> HttpResponse {
    let id = task["id"].as_str().expect("an id");
    web.get(&format!("/api/v1/tasks/{id}/{output}")).await
}

async fn execute(web: &RawHttpClient, execute: Value) -> Value {
    web.run(&json!({"execute": execute})).await
}

#[tokio::test]
async fn raw_output_is_returned_unchanged() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for (printf, lossy, exact, kind) in [
        ("a\\0b\\n", "a\0b\n", &b"a\0b\n"[..], "text/plain; charset=utf-8"),
        (
            "x\\377\\376y",
            "x\u{fffd}\u{fffd}y",
            b"x\xff\xfey",
            "application/octet-stream",
        ),
        // A character that is cut at the end does not make the text binary.
        ("\\303", "\u{fffd}", b"\xc3", "text/plain; charset=utf-8"),
        (
            "h\\303\\251\\033[31m",
            "hé\u{1b}[31m",
            b"h\xc3\xa9\x1b[31m",
            "text/plain; charset=utf-8",
        ),
        (
            "<b>&amp;\\r\\n",
            "<b>&amp;\r\n",
            b"<b>&amp;\r\n",
            "text/plain; charset=utf-8",
        ),
        ("", "", b"", "text/plain; charset=utf-8"),
    ] {
        let command = format!("printf '{printf}'; printf '{printf}' >&2");
        let task = execute(web, json!({"command": command})).await;
        for stream in ["stdout", "stderr"] {
            let outcome = &task["result"]["execute"];
            assert_eq!(outcome[stream], lossy, "{printf}");
            assert_eq!(outcome[format!("{stream}_truncated")], false);
            let answer = raw(web, &task, &format!("execute/{stream}")).await;
            assert_eq!((answer.status, answer.body.as_slice()), (200, exact));
            assert_eq!(answer.header("content-type"), kind);
            // A browser must not render untrusted output as a page.
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
            assert_eq!(answer.header("content-security-policy"), "sandbox");
        }
    }
}

/// How much of an output stream is in the JSON of a task.
const HEAD: usize = 64 << 10;

#[tokio::test]
async fn long_output_is_truncated_and_marked() {
    let node = SingleNode::up(&["--set", "executor.keep_output=1MiB"]);
    let web = &node.web;
    let line = "head -c 5000000 /dev/zero | tr '\\0' x";
    // (limit, reason, bytes kept)
    for (limit, reason, kept) in [
        (Value::Null, "exited", 1 << 20),
        (json!("1MB"), "output_limit", 1_000_000),
        (json!(4_999_999), "output_limit", 4_999_999),
        (json!(5_000_000), "exited", 5_000_000),
        (json!("6MB"), "exited", 5_000_000),
    ] {
        let task = execute(web, json!({"command": line, "limits": {"output": limit}})).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(outcome["reason"], reason, "{limit}");
        assert_eq!(outcome["stdout_truncated"], kept < 5_000_000, "{limit}");
        assert_eq!(outcome["stderr_truncated"], false);
        assert_eq!(
            (&outcome["stdout_bytes"], &outcome["stderr_bytes"]),
            (&json!(kept), &json!(0))
        );
        let answer = raw(web, &task, "execute/stdout").await;
        assert!(
            answer.body == vec![b'x'; kept],
            "{limit}: {} bytes",
            answer.body.len()
        );
        assert_eq!(outcome["stdout"].as_str().unwrap().len(), HEAD);
    }
    // Each stream has its own limit, and a full one blocks neither the other nor the command.
    let both = format!("{line} & {line} >&2 & wait; echo end >&2");
    let task = execute(web, json!({"command": both})).await;
    for stream in ["stdout", "stderr"] {
        assert_eq!(task["result"]["execute"][format!("{stream}_truncated")], true);
        assert_eq!(task["result"]["execute"][format!("{stream}_bytes")], 1 << 20);
        let answer = raw(web, &task, &format!("execute/{stream}")).await;
        assert_eq!(answer.body.len(), 1 << 20);
    }
    assert_eq!(task["status"], "success");
    // A truncated character is replaced.
    let wide = json!({"command": "yes é | tr -d '\\n' | head -c 101", "limits": {"output": 101}});
    let task = execute(web, wide).await;
    assert_eq!(raw(web, &task, "execute/stdout").await.body.len(), 101);
    assert!(
        task["result"]["execute"]["stdout"]
            .as_str()
            .unwrap()
            .ends_with("é\u{fffd}")
    );
}

/// JSON has the first 64 KiB, the URL everything. At the boundary, and with and without cells.
#[tokio::test]
async fn all_kept_output_is_at_its_url() {
    for isolation in ["none", "cell"] {
        let node = SingleNode::up(&["--isolation", isolation]);
        let web = &node.web;
        for size in [HEAD - 1, HEAD, HEAD + 1, 3_000_000, 16 << 20] {
            // Each step and stream, because each has its own path to the store.
            let print = format!("yes 0123456 | head -c {size}; yes abcdefg | head -c {size} >&2");
            let task = json!({"compile": {"command": print}, "execute": {"command": print}});
            let task = web.run(&task).await;
            assert_eq!(task["status"], "success", "{isolation} {size}");
            for step in ["compile", "execute"] {
                for (stream, line) in [("stdout", "0123456\n"), ("stderr", "abcdefg\n")] {
                    let outcome = &task["result"][step];
                    let expected = &line.repeat(size / 8 + 1)[..size];
                    assert_eq!(outcome[format!("{stream}_bytes")], size, "{isolation}");
                    assert_eq!(outcome[format!("{stream}_truncated")], false);
                    let head = outcome[stream].as_str().unwrap();
                    assert!(head == &expected[..size.min(HEAD)], "{} bytes", head.len());
                    let answer = raw(web, &task, &format!("{step}/{stream}")).await;
                    assert_eq!(answer.header("content-length"), size.to_string());
                    assert!(
                        answer.body == expected.as_bytes(),
                        "{isolation} {size} {step} {stream}"
                    );
                }
            }
        }
        // More than the default of executor.keep_output.
        let task = execute(web, json!({"command": "head -c 17000000 /dev/zero | tr '\\0' x"})).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(
            (&task["status"], &outcome["reason"]),
            (&json!("success"), &json!("exited"))
        );
        assert_eq!(
            (&outcome["stdout_bytes"], &outcome["stdout_truncated"]),
            (&json!(16 << 20), &json!(true))
        );
        assert_eq!(raw(web, &task, "execute/stdout").await.body.len(), 16 << 20);
        node.system.leftovers().wait_until_clean().await;
    }
}

#[tokio::test]
async fn a_failed_compile_step_ends_the_task() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let touched = node.gate("touched");
    let execute = json!({"command": touched.opening()});
    for (command, limits, reason, code) in [
        (
            "echo out; echo 'main.c:1: error' >&2; exit 1",
            json!({}),
            "exited",
            json!(1),
        ),
        ("kill -ABRT $$", json!({}), "signalled", Value::Null),
        ("sleep 600", json!({"wall": "200ms"}), "wall_limit", Value::Null),
        ("yes", json!({"output": 100}), "output_limit", Value::Null),
        ("no-such-compiler main.c", json!({}), "exited", json!(127)),
    ] {
        let compile = json!({"command": command, "limits": limits});
        let task = web.run(&json!({"compile": compile, "execute": execute})).await;
        assert_eq!(task["status"], "compile_failed", "{task:#}");
        let outcome = &task["result"]["compile"];
        assert_eq!(
            (&outcome["reason"], &outcome["exit_code"]),
            (&json!(reason), &code),
            "{command}"
        );
        assert_eq!(task["result"]["execute"], Value::Null);
        let problem = raw(web, &task, "execute/stdout").await.assert_problem(404);
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("or it ended before it"),
            "{problem}"
        );
        assert_eq!(raw(web, &task, "compile/stdout").await.status, 200);
    }
    assert!(!touched.is_open(), "a task ran that did not compile");

    let task = web
        .run(&json!({"compile": {"command": "echo out; echo err >&2; exit 1"}, "execute": execute}))
        .await;
    assert_eq!(raw(web, &task, "compile/stdout").await.body, b"out\n");
    assert_eq!(raw(web, &task, "compile/stderr").await.body, b"err\n");
    // Files of the compile step are kept for the execute step; outputs are separate.
    let task = web
        .run(&json!({
            "compile": {"command": "echo compiled; printf '#!/bin/sh\\necho ran' > main; chmod +x main; exit 0"},
            "execute": {"command": ["./main"]},
        }))
        .await;
    assert_eq!(task["result"]["compile"]["stdout"], "compiled\n");
    assert_eq!(task["result"]["execute"]["stdout"], "ran\n");
}

#[tokio::test]
async fn missing_outputs_are_not_found() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let gate = node.gate("go");
    let running = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await
        .json();
    let problem = raw(web, &running, "execute/stdout").await.assert_problem(404);
    assert!(problem["detail"].as_str().unwrap().contains("yet"), "{problem}");
    let done = execute(web, json!({"command": "true"})).await;
    raw(web, &done, "compile/stdout").await.assert_problem(404);
    for wrong in ["execute/stdin", "run/stdout", "execute", "execute/stdout/x"] {
        raw(web, &done, wrong).await.assert_problem(404);
    }
    gate.open();
}
