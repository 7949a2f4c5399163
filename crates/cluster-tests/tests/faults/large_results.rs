//! Large results over slow and cut links: they arrive once, and delay nobody.

use std::path::Path;
use std::time::Instant;

use api::Task;
use cluster_tests::{NodeProcess, RawHttpClient, TcpRelay, shell, wait_until};
use model::{TaskId, TaskStatus};
use serde_json::{Value, json};

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SHORT_LEASE_FLAGS, SOON};

/// What `seq 1 NUMBERS` prints.
const NUMBERS: u32 = 300_000;
const SLOW: u64 = 200_000;

/// A system under test whose executor reaches its judicator through a link that the test can slow down and cut.
struct SlowLinkSystem {
    harness: FaultHarness,
    relay: TcpRelay,
    web: RawHttpClient,
    executor: Option<NodeProcess>,
    _nodes: [NodeProcess; 2],
}

impl SlowLinkSystem {
    async fn start(flags: &[&str], more: &[&str]) -> SlowLinkSystem {
        let harness = FaultHarness::new();
        let system = &harness.system;
        let judicator = system.judicator(&[flags, more].concat()).unwrap();
        let gateway = system.gateway(&[]).unwrap();
        let relay = TcpRelay::start(system.rpc()).await.unwrap();
        let web = RawHttpClient::new(&system.url(""));
        let mut system = SlowLinkSystem {
            harness,
            relay,
            web,
            executor: None,
            _nodes: [gateway, judicator],
        };
        system.start_executor(flags);
        system.harness.system.ready(1).await;
        system
    }

    fn start_executor(&mut self, flags: &[&str]) {
        let data = self.harness.path("e").display().to_string();
        let args = [
            "executor",
            "--name",
            "e",
            "--slots",
            "2",
            "--data",
            &data,
            "--judicator",
            &self.relay.address,
        ];
        let folder = self.harness.system.folder.path();
        let executor = NodeProcess::start("e", folder, &[&args, flags].concat()).unwrap();
        self.executor = Some(executor);
    }

    /// Adds a task that prints megabytes, and waits until its program has ended.
    async fn add_large(&self) -> TaskId {
        let work = format!("seq 1 {NUMBERS}; echo kept > kept");
        let mut task = shell(&self.harness.history.record(&work));
        task["keep"] = json!(["kept"]);
        let id = self.harness.system.add(task).await.id;
        wait_until("the program to end", SOON, async || {
            let runs = self.harness.history.runs_of(id);
            runs.first().and_then(|run| run.end)
        })
        .await;
        id
    }

    /// Waits until the executor has sent this many bytes more.
    async fn wait_until_sent(&self, more: u64) {
        let before = self.relay.sent_bytes();
        wait_until("a part of the result to be sent", SOON, async || {
            (self.relay.sent_bytes() > before + more).then_some(())
        })
        .await;
    }

    /// Asserts that the task ran once, on one attempt, and its whole result is there.
    async fn assert_whole(&self, id: TaskId) -> Task {
        let task = self.harness.system.done(id).await;
        assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1), "{task:?}");
        assert_eq!(self.harness.history.runs_of(id).len(), 1);
        let json = self.web.get(&format!("/api/v1/tasks/{id}")).await.json();
        assert_eq!(ends(&json), ["finished"], "{json:#}");
        let expected = output();
        assert_eq!(json["result"]["execute"]["stdout_bytes"], expected.len());
        assert_eq!(json["result"]["execute"]["stdout_truncated"], false);
        let stdout = self.web.get(&format!("/api/v1/tasks/{id}/execute/stdout")).await;
        assert!(stdout.body == expected, "{} bytes", stdout.body.len());
        let file = self.web.get(&format!("/api/v1/tasks/{id}/files/kept")).await;
        assert_eq!(file.body, b"kept\n");
        self.harness.system.leftovers_at("e").wait_until_clean().await;
        let outgoing = self.harness.path("e").join("executor/outgoing");
        wait_until("no file to be outgoing", SOON, async || {
            files_beneath(&outgoing).is_empty().then_some(())
        })
        .await;
        task
    }
}

fn output() -> Vec<u8> {
    (1..=NUMBERS)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

fn ends(task: &Value) -> Vec<&str> {
    let attempts = task["ran_on"].as_array().unwrap();
    attempts
        .iter()
        .map(|attempt| attempt["end"].as_str().unwrap_or("running"))
        .collect()
}

fn files_beneath(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_beneath(&entry.path())),
            _ => found.push(entry.path().display().to_string()),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_arrives_whose_executor_was_killed_while_it_uploaded() {
    let mut system = SlowLinkSystem::start(&LONG_LEASE_FLAGS, &[]).await;
    system.relay.limit_rate(SLOW);
    let id = system.add_large().await;
    system.wait_until_sent(400_000).await;
    system.executor.take().unwrap().kill();
    assert!(!system.harness.get(id).await.done);
    system.start_executor(&LONG_LEASE_FLAGS);
    system.wait_until_sent(200_000).await;
    assert!(!system.harness.get(id).await.done);
    // A second time, and then the link is fast.
    system.executor.take().unwrap().kill();
    system.relay.limit_rate(0);
    let begun = Instant::now();
    system.start_executor(&LONG_LEASE_FLAGS);
    system.assert_whole(id).await;
    println!("the result is there {:?} after the restart", begun.elapsed());
}

/// The upload takes longer than the lease. Reports do not wait behind it, nor do other tasks and their results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_upload_delays_neither_heartbeats_nor_other_tasks() {
    let system = SlowLinkSystem::start(&SHORT_LEASE_FLAGS, &[]).await;
    let session = system.harness.executor("e").await.unwrap().session;
    system.relay.limit_rate(SLOW);
    let id = system.add_large().await;
    let begun = Instant::now();
    let mut meanwhile = 0;
    loop {
        // Small results, and one with a blob of its own, which gets its share of the link.
        let next = system.harness.system.run(system.harness.short_task()).await;
        assert_eq!((next.status, next.attempt), (TaskStatus::Success, 1), "{next:?}");
        if meanwhile == 0 {
            let medium = system.harness.system.run(shell("seq 1 15000")).await;
            assert_eq!((medium.status, medium.attempt), (TaskStatus::Success, 1));
        }
        if system.harness.get(id).await.done {
            break;
        }
        meanwhile += 1;
        assert!(begun.elapsed() < SOON, "the result does not arrive");
    }
    println!(
        "{meanwhile} tasks were done within the {:?} of the upload",
        begun.elapsed()
    );
    assert!(meanwhile > 3, "{meanwhile} tasks");
    let executor = system.harness.executor("e").await.unwrap();
    assert_eq!((executor.health.as_str(), executor.session), ("alive", session));
    system.assert_whole(id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_over_a_cut_link_continues_where_it_ended() {
    let system = SlowLinkSystem::start(&LONG_LEASE_FLAGS, &[]).await;
    let before = system.relay.sent_bytes();
    system.relay.limit_rate(2 * SLOW);
    let id = system.add_large().await;
    for _ in 0..2 {
        system.wait_until_sent(600_000).await;
        system.relay.disconnect();
        assert!(!system.harness.get(id).await.done);
        system.relay.reconnect();
    }
    system.relay.limit_rate(0);
    system.assert_whole(id).await;
    let (sent, size) = (system.relay.sent_bytes() - before, output().len() as u64);
    println!("{sent} bytes were sent for a result of {size}");
    // Two uploads that begin again would send 1,200,000 bytes more.
    assert!(sent < size + 500_000, "{sent} bytes for {size}");
}

/// The task is cancelled when a part of its result is in the store. No result will ever name these blobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_that_no_result_names_are_removed() {
    let system = SlowLinkSystem::start(&LONG_LEASE_FLAGS, &["--set", "judicator.keep_blobs=1s"]).await;
    system.relay.limit_rate(SLOW);
    let id = system.add_large().await;
    system.wait_until_sent(300_000).await;
    let store = system.harness.system.data().join("store");
    let stored = || {
        let files = files_beneath(&store);
        // Two of the 64 digits are the name of the folder. What an interrupted upload left has another name.
        let is_blob = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or_default();
            name.len() == 62 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let found: Vec<_> = files.into_iter().filter(is_blob).collect();
        found
    };
    wait_until("a part of the result to be stored", SOON, async || {
        (!stored().is_empty()).then_some(())
    })
    .await;
    system.harness.system.client.cancel(id).await.unwrap();
    wait_until("the store to have no blobs", SOON, async || {
        let left = stored();
        left.is_empty().then_some(())
    })
    .await;
    let outgoing = system.harness.path("e").join("executor/outgoing");
    wait_until("no file to be outgoing", SOON, async || {
        files_beneath(&outgoing).is_empty().then_some(())
    })
    .await;
    let json = system.web.get(&format!("/api/v1/tasks/{id}")).await.json();
    assert_eq!(
        (&json["status"], ends(&json)),
        (&json!("cancelled"), vec!["cancelled"])
    );
    system.relay.limit_rate(0);
    let next = system.harness.system.run(system.harness.short_task()).await;
    assert_eq!(next.status, TaskStatus::Success);
}
