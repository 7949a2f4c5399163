//! The history: figures of what ran, kept through a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{HistoryResponse, NewTask};
use cluster_tests::shell;
use model::HistorySpan;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::SingleNode;

const ENDS: Duration = Duration::from_secs(30);

/// The counts of all periods together.
fn total(
    history: &HistoryResponse,
    counts: impl Fn(&api::HistoryPoint) -> &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let mut totals = BTreeMap::new();
    for (name, count) in history.points.iter().flat_map(counts) {
        *totals.entry(name.clone()).or_default() += count;
    }
    totals.retain(|_, count| *count > 0);
    totals
}

fn counts(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let pairs = expected.iter();
    pairs.map(|(name, count)| (name.to_string(), *count)).collect()
}

#[tokio::test]
async fn the_history_counts_what_ran_and_is_kept_through_a_restart() {
    let node = SingleNode::up(&["--slots", "2"]);
    let system = &node.system;
    for command in ["true", "sleep 0.05", "exit 3"] {
        system.run(shell(command)).await;
    }
    let slow = json!({"user": "tests", "execute": {"command": "sleep 60", "limits": {"wall": "200ms"}}});
    assert_eq!(system.run(slow).await.status.as_str(), "run_failed");
    let gate = node.gate("gate");
    let running = system.add(shell(&gate.wait())).await;
    system.client.cancel(running.id).await.unwrap();
    let check = async |client: &api::HttpClient| {
        for (span, points) in [(HistorySpan::Hour, 60), (HistorySpan::Day, 144)] {
            let history = client.history(span).await.unwrap();
            assert_eq!((history.points.len(), history.span), (points, span));
            let added: u64 = history.points.iter().map(|point| point.added).sum();
            assert_eq!(added, 5);
            let finished = counts(&[("success", 2), ("run_failed", 2), ("cancelled", 1)]);
            assert_eq!(total(&history, |point| &point.finished), finished);
            let failures = counts(&[("exited", 1), ("wall_limit", 1)]);
            assert_eq!(total(&history, |point| &point.failures), failures);
            let run_times = history.points.iter().filter_map(|point| point.run_time);
            let (tasks, longest) = run_times.fold((0, 0.0_f64), |(tasks, longest), run_time| {
                (tasks + run_time.tasks, longest.max(run_time.p95_seconds))
            });
            assert_eq!(tasks, 4);
            assert!((0.1..30.0).contains(&longest), "{longest}");
            let slots = history.points.iter().filter_map(|point| point.load);
            assert!(slots.clone().count() > 0 && slots.clone().all(|load| load.slots <= 2.0));
        }
    };
    check(&system.client).await;
    // An orderly stop saves what is not saved yet.
    let SingleNode { mut up, system, .. } = node;
    up.signal(Signal::SIGTERM);
    up.wait_for_end(ENDS).await;
    let node = SingleNode::on(system, &[]);
    node.system.ready(1).await;
    check(&node.system.client).await;
}

#[tokio::test]
async fn the_queue_has_a_length_and_an_age() {
    let node = SingleNode::up(&["--slots", "1"]);
    let system = &node.system;
    system.ready(1).await;
    assert_eq!(system.client.stats().await.unwrap().oldest_queued_seconds, None);
    // No executor has this root, so the task waits.
    let task = json!({
        "user": "tests", "root": "nowhere", "wait_for_executor": true, "execute": {"command": "true"},
    });
    let task: NewTask = serde_json::from_value(task).unwrap();
    system.client.add(&task, None).await.unwrap();
    let stats = system.client.stats().await.unwrap();
    assert_eq!(stats.queued, 1);
    assert!(
        stats.oldest_queued_seconds.is_some_and(|age| age < 60.0),
        "{stats:?}"
    );
}
