//! Failover of the client: which judicator it asks when one fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use model::{BlobHash, TaskId, TaskWait};
use rpc::{CallError, Calls, ClusterSecret, RpcClient};

use super::harness::{ENDLESS, client, listen, start, start_without_calls};

/// A client chooses its home at random. With this many clients, each judicator is the home of some.
const CLIENTS: usize = 12;

#[tokio::test]
async fn a_failing_judicator_loses_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |word: &str| {
        let path = folder.path().join(word);
        std::fs::write(&path, word).unwrap();
        ClusterSecret::load(&path).unwrap()
    };
    let ours = secret("the-secret-of-this-cluster");
    let (good, good_at) = start(Some(ours.clone())).await;
    let (_, foreign_at) = start(Some(secret("a-secret-of-another-one"))).await;
    let (full, full_at) = start(Some(ours.clone())).await;
    full.fault.send_replace(Some(CallError::Full("no room".into())));
    let (broken, broken_at) = start(Some(ours.clone())).await;
    broken
        .fault
        .send_replace(Some(CallError::Internal("damaged".into())));
    let (busy, busy_at) = start(Some(ours.clone())).await;
    busy.fault
        .send_replace(Some(CallError::Busy("much to do".into())));
    let old_at = start_without_calls().await;
    for (what, address) in [
        ("another secret", &foreign_at),
        ("no such call", &old_at),
        ("full", &full_at),
        ("internal error", &broken_at),
        ("busy", &busy_at),
    ] {
        for _ in 0..CLIENTS {
            let client = client(&[address, &good_at], Some(ours.clone()));
            for _ in 0..3 {
                client
                    .stats()
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let bytes = stream::iter([Ok(Bytes::from_static(b"1234"))]).boxed();
            let put = client.put_blob(BlobHash([1; 32]), None, bytes).await;
            assert_eq!(put, Ok(4), "{what}");
        }
    }
    assert_eq!(good.calls() as usize, 5 * 3 * CLIENTS);
    // Each client asked it at most once.
    for judicator in [&full, &broken] {
        assert!(judicator.calls() as usize <= CLIENTS, "{}", judicator.calls());
    }
}

#[tokio::test]
async fn a_wrong_request_is_not_repeated_at_another_judicator() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    for _ in 0..3 {
        let answer = client.get(TaskId(uuid::Uuid::now_v7()), None).await;
        assert!(matches!(answer, Err(CallError::NoTask(_))), "{answer:?}");
    }
    let mut calls = [first.calls(), second.calls()];
    calls.sort_unstable();
    assert_eq!(calls, [0, 3]);
}

#[tokio::test]
async fn after_a_stream_fails_midway_the_next_one_comes_from_another_judicator() {
    let (broken, broken_at) = start(None).await;
    broken
        .fault
        .send_replace(Some(CallError::Internal("bad disk".into())));
    let (_, good_at) = start(None).await;
    for _ in 0..CLIENTS {
        let client = client(&[&broken_at, &good_at], None);
        let mut failures = 0;
        loop {
            let parts: Vec<_> = client.get_blob(BlobHash([1; 32])).await.unwrap().collect().await;
            if parts.iter().all(Result::is_ok) {
                break;
            }
            failures += 1;
            assert!(failures < 2, "the same judicator was asked again");
        }
    }
    // Some clients did ask it first.
    assert!(broken.calls() > 0);
}

#[tokio::test]
async fn unread_blob_streams_do_not_block_other_calls() {
    let (judicator, address) = start(None).await;
    let client = client(&[&address], None);
    let mut unread = Vec::new();
    for _ in 0..32 {
        unread.push(client.get_blob(ENDLESS).await.unwrap());
    }
    // More than the default window of a connection.
    let filled = async {
        while judicator.produced.load(Ordering::SeqCst) < 6 << 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), filled)
        .await
        .unwrap();
    client.stats().await.unwrap();
    // Other blobs are not blocked either.
    let mut other = client.get_blob(ENDLESS).await.unwrap();
    assert!(other.next().await.unwrap().is_ok());
    let whole = client.get_blob(BlobHash([1; 32])).await.unwrap();
    assert_eq!(whole.count().await, 2);
}

#[tokio::test]
async fn a_caller_that_disconnects_during_a_wait_does_not_suspend_the_judicator() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    for _ in 0..3 {
        let wait = client.get(TaskId(uuid::Uuid::now_v7()), Some(Duration::from_secs(60)));
        let dropped = tokio::time::timeout(Duration::from_millis(1500), wait).await;
        assert!(dropped.is_err());
    }
    let mut calls = [first.calls(), second.calls()];
    calls.sort_unstable();
    assert_eq!(calls, [0, 3]);
}

#[tokio::test]
async fn if_all_judicators_fail_the_most_useful_error_is_returned() {
    let (full, full_at) = start(None).await;
    full.fault.send_replace(Some(CallError::Full("no room".into())));
    let (stopping, stopping_at) = start(None).await;
    stopping
        .fault
        .send_replace(Some(CallError::Unavailable("stopping".into())));
    // No server listens at this address any more.
    let (_, dead_at) = listen().await;
    let addresses = [&*full_at, &*stopping_at, &*dead_at];
    for begin in 0..CLIENTS {
        let mut addresses = addresses;
        addresses.rotate_left(begin % 3);
        let client = client(&addresses, None);
        let expected = CallError::Full(format!("judicator {full_at}: no room"));
        assert_eq!(client.stats().await.unwrap_err(), expected);
        // Suspended judicators are asked anyway if all are suspended.
        assert_eq!(client.stats().await.unwrap_err(), expected);
    }
    let none = client(&[], None);
    assert!(matches!(none.stats().await, Err(CallError::Unavailable(_))));
}

#[tokio::test]
async fn why_a_task_waits_is_not_known_to_older_judicators() {
    let (_, new_at) = start(None).await;
    let (old_at, other_old_at) = (start_without_calls().await, start_without_calls().await);
    let id = TaskId(uuid::Uuid::now_v7());
    let old = client(&[&old_at, &other_old_at], None);
    for _ in 0..2 {
        assert_eq!(old.waiting(id).await, Ok(TaskWait::not_known()));
    }
    // A newer one that can be asked is asked.
    for _ in 0..CLIENTS {
        let mixed = client(&[&old_at, &new_at], None);
        assert_eq!(mixed.waiting(id).await, Err(CallError::NoTask(id)));
    }
}

#[tokio::test]
async fn a_client_returns_to_its_home_when_that_works_again() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    client.stats().await.unwrap();
    let (home, other) = match first.calls() {
        1 => (first, second),
        _ => (second, first),
    };
    home.fault.send_replace(Some(CallError::Full("no room".into())));
    client.stats().await.unwrap();
    assert_eq!((home.calls(), other.calls()), (2, 1));
    // The home is probed after its pause and is still full. No call waits for the probe.
    call_until(&client, || home.checks.load(Ordering::SeqCst) >= 1).await;
    assert_eq!(home.calls(), 2);
    home.fault.send_replace(None);
    call_until(&client, || home.calls() > 2).await;
}

/// Makes calls until the condition holds. Each call must succeed at some judicator.
async fn call_until(client: &RpcClient, condition: impl Fn() -> bool) {
    let calls = async {
        while !condition() {
            client.stats().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), calls)
        .await
        .unwrap();
}
