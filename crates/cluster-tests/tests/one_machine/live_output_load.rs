//! Many followers, slow followers, and much output: they cost bounded memory and never slow the task.

use std::time::Instant;

use futures::future::join_all;
use serde_json::json;

use crate::harness::{SingleNode, resident_bytes, sha256_hex};
use crate::live_output::{add, follow};
use crate::raw_connection::RawConnection;
use crate::slow_clients::other;

fn numbers(count: u32) -> Vec<u8> {
    (1..=count)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

#[tokio::test]
async fn much_output_is_followed_without_loss_or_repetition() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("gate");
    let command = format!(
        "seq 1 200000; seq 1 300000 >&2; {}; seq 200001 700000",
        gate.wait()
    );
    let id = add(&node, &json!({"execute": {"command": command}})).await;
    let mut early = follow(&node, &id, "execute/stdout?follow=true").await;
    let errors = follow(&node, &id, "execute/stderr?follow=true").await;
    let first = numbers(200_000);
    early
        .wait_for("the first part", |bytes| bytes.len() >= first.len())
        .await;
    // One that comes late is far behind: it reads beyond what is kept in memory.
    let late = follow(&node, &id, "execute/stdout?follow=true").await;
    let within = follow(&node, &id, "execute/stdout?follow=true&offset=100000").await;
    gate.open();
    let whole = numbers(700_000);
    for (follower, expected) in [(early, &whole[..]), (late, &whole), (within, &whole[100_000..])] {
        let bytes = follower.complete().await;
        assert_eq!(bytes.len(), expected.len());
        assert_eq!(sha256_hex(&bytes), sha256_hex(expected));
    }
    assert_eq!(sha256_hex(errors.complete().await), sha256_hex(numbers(300_000)));
    let raw = node.web.get(&format!("/api/v1/tasks/{id}/execute/stdout")).await;
    assert_eq!(sha256_hex(&raw.body), sha256_hex(&whole));
}

#[tokio::test]
async fn a_hundred_followers_get_the_same() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("gate");
    let command = format!("seq 1 20000; {}; seq 20001 60000", gate.wait());
    let id = add(&node, &json!({"execute": {"command": command}})).await;
    let begun = Instant::now();
    let followers = join_all((0..100).map(|_| follow(&node, &id, "execute/stdout?follow=true"))).await;
    gate.open();
    let whole = numbers(60_000);
    for bytes in join_all(followers.into_iter().map(|follower| follower.complete())).await {
        assert!(bytes == whole, "{} bytes of {}", bytes.len(), whole.len());
    }
    println!(
        "100 followers of {} bytes after {:?}",
        whole.len(),
        begun.elapsed()
    );
    let (now, most) = resident_bytes(node.up.pid());
    println!("resident {} MiB, at most {} MiB", now >> 20, most >> 20);
}

/// The task writes much more than all buffers together. It ends although nobody reads, and the node does not keep the
/// bytes for each follower.
#[tokio::test]
async fn followers_that_never_read_slow_nothing() {
    const FOLLOWERS: u64 = 40;
    const BYTES: u64 = 48 << 20;
    let node = SingleNode::up(&["--set", "executor.keep_output=64MiB"]);
    let gate = node.gate("gate");
    let command = format!(
        "echo begun; {}; head -c {BYTES} /dev/zero | tr '\\0' x",
        gate.wait()
    );
    let write = |gated: bool| {
        let command = match gated {
            true => command.clone(),
            false => format!("head -c {BYTES} /dev/zero | tr '\\0' x"),
        };
        json!({"execute": {"command": command}})
    };
    // The same without followers, to compare, and to reach the usual size of the process.
    let begun = Instant::now();
    let alone = node.web.run(&write(false)).await;
    let usual = begun.elapsed();
    assert_eq!(alone["status"], "success", "{alone:#}");
    let (before, _) = resident_bytes(node.up.pid());

    let id = add(&node, &write(true)).await;
    let mut reader = follow(&node, &id, "execute/stdout?follow=true").await;
    reader
        .wait_for("the task to run", |bytes| bytes == b"begun\n")
        .await;
    let mut deaf = Vec::new();
    for number in 0..FOLLOWERS {
        let path = match number % 2 {
            0 => "execute/stdout?follow=true",
            _ => "events?output=true",
        };
        let mut connection = RawConnection::open(&node.system).await;
        let request = format!("GET /api/v1/tasks/{id}/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // The head of the response is all that it reads.
        let head = connection.ask(&request).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        deaf.push(connection);
    }
    let begun = Instant::now();
    gate.open();
    let task = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    println!(
        "{:?} with followers that do not read, {usual:?} without",
        begun.elapsed()
    );
    assert_eq!(task["status"], "success", "{task:#}");
    assert_eq!(task["result"]["execute"]["stdout_bytes"], BYTES + 6);
    let (after, most) = resident_bytes(node.up.pid());
    println!(
        "resident before {} MiB, after {} MiB, at most {} MiB",
        before >> 20,
        after >> 20,
        most >> 20
    );
    // About one copy of the output, not one for each follower.
    let grown = most.saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
    // Who reads gets all of it.
    assert_eq!(reader.complete().await.len() as u64, BYTES + 6);
    drop(deaf);
}

/// Followers that read nothing, not even the head of the response, must hold nothing that another caller needs, such as a
/// connection of the store.
#[tokio::test]
async fn followers_that_never_read_block_nobody() {
    // Longer than the test: a request that waits for a follower to be closed fails.
    let node = SingleNode::up(&["--set", "gateway.answer_stall=10m"]);
    let gate = node.gate("gate");
    let command = format!(
        "head -c 8000000 /dev/zero; {}; head -c 8000000 /dev/zero",
        gate.wait()
    );
    let id = add(&node, &json!({"execute": {"command": command}})).await;
    let other = other(&node);
    let mut deaf = Vec::new();
    // Once while the task runs, and once while it ends.
    for round in 0..2 {
        let begin = async |number: usize| {
            let path = match number % 2 {
                0 => "execute/stdout?follow=true",
                _ => "events?output=true",
            };
            let mut connection = RawConnection::open(&node.system).await;
            let request = format!("GET /api/v1/tasks/{id}/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            connection.send_only(request.as_bytes()).await;
            connection
        };
        deaf.extend(join_all((0..60).map(begin)).await);
        if round == 1 {
            gate.open();
        }
        for _ in 0..5 {
            let task = other.get(&format!("/api/v1/tasks/{id}")).await;
            assert_eq!(task.status, 200, "{}", task.text());
        }
    }
    for _ in 0..10 {
        let task = node
            .web
            .run(&json!({"execute": {"command": "echo served"}}))
            .await;
        assert_eq!(task["result"]["execute"]["stdout"], "served\n");
    }
    let done = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(done["status"], "success", "{done:#}");
    drop(deaf);
}
