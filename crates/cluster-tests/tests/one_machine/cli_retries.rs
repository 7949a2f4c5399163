//! The command line when responses are lost or never arrive.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cluster_tests::{CommandOutput, ConclaveCli};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::SingleNode;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A server that accepts, reads and never answers.
async fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while connection.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    address
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let address = silent_server().await;
    let cli = ConclaveCli::new(&format!("http://{address}"));
    for (args, code) in [
        (&["stats"][..], 1),
        (&["search"], 1),
        (&["executors"], 1),
        (&["get", UNKNOWN], 1),
        (&["get", "--wait", "100ms", UNKNOWN], 125),
        (&["watch", UNKNOWN], 125),
        (&["cancel", UNKNOWN], 1),
    ] {
        let args = [&["--timeout", "600ms"], args].concat();
        cli.run(&args)
            .await
            .assert_failure(code, &["did not respond", &address, "--timeout"]);
    }
    // The task may have been added: the message says how to continue.
    for (verb, code) in [("add", 1), ("run", 125)] {
        let args = [verb, "--timeout", "600ms", "--id", UNKNOWN, "--", "true"];
        cli.run(&args).await.assert_failure(
            code,
            &[
                "it is unknown whether",
                &format!("--id {UNKNOWN}"),
                "did not respond",
            ],
        );
    }
    let lines = "{\"execute\": {\"command\": \"true\"}}\n".repeat(3);
    let args = ["add", "--timeout", "600ms", "--key", UNKNOWN, "--lines", "-"];
    cli.run_with_input(&args, lines.as_bytes()).await.assert_failure(
        1,
        &[
            "did not respond",
            "for 3 more (lines 1 to 3) it is unknown",
            &format!("--key {UNKNOWN}"),
        ],
    );
    let args = ["add", "--timeout", "600ms", "--lines", "-"];
    // More than the kernel buffers for a client that does not read.
    let large = format!("{{\"execute\": {{\"command\": \"{}\"}}}}\n", "x".repeat(1 << 20)).repeat(3);
    cli.run_with_input(&args, large.as_bytes())
        .await
        .assert_failure(1, &["did not respond"]);
}

#[tokio::test]
async fn an_interrupted_batch_prints_how_to_continue() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let cli = ConclaveCli::new(&format!("http://{address}"));
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut command = cli.command(&["add", "--lines", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("conclave starts");
        let pid = Pid::from_raw(child.id().expect("a pid") as i32);
        let mut stdin = child.stdin.take().expect("a stdin");
        let input = "{\"execute\": {\"command\": \"true\"}}\n".repeat(3);
        stdin.write_all(input.as_bytes()).await.expect("it reads");
        drop(stdin);
        // The call is under way, and is never answered.
        let (mut connection, _) = listener.accept().await.expect("it connects");
        connection.read_exact(&mut [0; 16]).await.expect("a request");
        nix::sys::signal::kill(pid, signal).expect("it runs");
        let said = CommandOutput::of(child).await;
        said.assert_failure(
            code,
            &[
                "no task is known to have been added",
                "for 3 more (lines 1 to 3) it is unknown",
            ],
        );
        assert_eq!(
            said.flag_value_on_stderr("--key").len(),
            UNKNOWN.len(),
            "{said:?}"
        );
    }
    // The same while it waits for input.
    let mut command = cli.command(&["--timeout", "600ms", "add", "--lines", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("conclave starts");
    let pid = Pid::from_raw(child.id().expect("a pid") as i32);
    let mut stdin = child.stdin.take().expect("a stdin");
    // More than the pipe's buffer: when it is written, the reader has started.
    stdin.write_all(&[b'\n'; 128 << 10]).await.expect("it reads");
    nix::sys::signal::kill(pid, Signal::SIGINT).expect("it runs");
    let said = CommandOutput::of(child).await;
    said.assert_failure(130, &["no task was added"]);
    drop(stdin);
}

/// A proxy in front of a gateway that drops the responses to the first adds although they have succeeded. It forwards
/// everything else.
struct ResponseDropper {
    address: String,
    dropped: Arc<AtomicUsize>,
}

impl ResponseDropper {
    async fn start(target: &str, times: usize) -> ResponseDropper {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let dropped = Arc::new(AtomicUsize::new(0));
        let (target, count) = (target.to_string(), Arc::clone(&dropped));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&target).await.expect("the server");
                tokio::spawn(forward(near, far, times, Arc::clone(&count)));
            }
        });
        ResponseDropper { address, dropped }
    }
}

async fn forward(near: TcpStream, far: TcpStream, times: usize, dropped: Arc<AtomicUsize>) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let there = tokio::spawn(async move { tokio::io::copy(&mut from_near, &mut to_far).await });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from_far.read(&mut buffer).await {
        let is_added = buffer.starts_with(b"HTTP/1.1 201") || buffer.starts_with(b"HTTP/1.1 200");
        if is_added && dropped.fetch_add(1, Ordering::Relaxed) < times {
            break;
        }
        if to_near.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    // Both directions are closed, so the client sees the end of its connection.
    there.abort();
}

/// JSON Lines that are too many for one call.
fn lines(count: usize) -> String {
    let padding = "x".repeat(400);
    let line = |number: usize| {
        json!({"execute": {"command": format!("echo {number}"), "env": {"PADDING": padding}}}).to_string()
    };
    (1..=count).map(|number| line(number) + "\n").collect()
}

#[tokio::test]
async fn a_lost_response_adds_nothing_twice() {
    let node = SingleNode::up(&["--slots", "0"]);
    let relay = ResponseDropper::start(node.system.http(), 2).await;
    let cli = ConclaveCli::new(&format!("http://{}", relay.address));
    let said = cli
        .run_with_input(&["add", "--lines", "-"], lines(300).as_bytes())
        .await;
    assert_eq!((said.code, said.text().lines().count()), (0, 300), "{said:?}");
    assert!(relay.dropped.load(Ordering::Relaxed) >= 2);
    assert_eq!(node.system.client.stats().await.unwrap().counts["pending"], 300);
}

#[tokio::test]
async fn an_interrupted_batch_continues_with_its_key() {
    let node = SingleNode::up(&["--slots", "0", "--set", "gateway.max_batch=200"]);
    let relay = ResponseDropper::start(node.system.http(), usize::MAX).await;
    let cut_off = ConclaveCli::new(&format!("http://{}", relay.address));
    let input = lines(320);
    let said = cut_off
        .run_with_input(&["add", "--timeout", "10s", "--lines", "-"], input.as_bytes())
        .await;
    said.assert_failure(
        1,
        &[
            "no task is known to have been added",
            "for 200 more (lines 1 to 200) it is unknown",
        ],
    );
    let counts = node.system.client.stats().await.unwrap().counts;
    assert_eq!(counts["pending"], 200, "they were added all the same");
    let key = said.flag_value_on_stderr("--key");
    // The rest is added, and nothing twice, however often the command is repeated.
    for _ in 0..2 {
        let said = node
            .cli
            .run_with_input(&["add", "--key", key, "--lines", "-"], input.as_bytes())
            .await
            .assert_success();
        assert_eq!(said.text().lines().count(), 320);
        let counts = node.system.client.stats().await.unwrap().counts;
        assert_eq!(counts["pending"], 320);
    }
    // Another line at the same number is another task.
    let changed = input.replace("echo 7\"", "echo seven\"");
    node.cli
        .run_with_input(&["add", "--key", key, "--lines", "-"], changed.as_bytes())
        .await
        .assert_failure(1, &["line 7 of - is invalid", "already exists"]);
}

#[tokio::test]
async fn an_invalid_line_is_named_by_its_number() {
    let node = SingleNode::up(&["--slots", "0"]);
    let good = "{\"execute\": {\"command\": \"true\"}}\n";
    for (bad, words) in [
        ("{\"execute\": {\"comand\": \"x\"}}\n", "'command'"),
        ("{\n", "not valid JSON"),
        (
            "{\"execute\": {\"command\": \"x\", \"limits\": {\"wall\": \"9d\"}}}\n",
            "execute.limits.wall: is more than the operator allows",
        ),
    ] {
        // Blank lines count, as in an editor.
        let input = format!("{}\n{}{bad}{good}", good.repeat(9), good.repeat(7));
        let said = node
            .cli
            .run_with_input(&["add", "--lines", "-"], input.as_bytes())
            .await;
        said.assert_failure(1, &["line 18 of - is invalid", words, "no task was added"]);
        assert!(!said.stderr.contains("tasks["), "{said:?}");
    }
    assert_eq!(node.system.client.stats().await.unwrap().counts["pending"], 0);
}
