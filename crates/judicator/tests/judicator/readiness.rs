//! Readiness of a judicator when its store or one of its components fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rpc::{CallError, Calls, Readiness};
use supervise::{Component, FailureKind};

use super::harness::{StoreFault, TestJudicator, start, with_deadline};

#[tokio::test]
async fn a_failed_component_makes_the_judicator_not_ready() {
    for (fault, component, kind) in [
        (
            StoreFault::SessionsPanic,
            Component::Expiry,
            FailureKind::Panicked("on purpose".into()),
        ),
        (StoreFault::ChangesEnd, Component::Dispatch, FailureKind::Returned),
    ] {
        let test = start(fault);
        let failed = with_deadline(test.judicator.failure()).await;
        assert_eq!((failed.component, &failed.kind), (component, &kind));
        // The store works, but the judicator does not.
        assert_eq!(
            test.judicator.check().await,
            Err(CallError::Unavailable(failed.to_string()))
        );
    }
}

#[tokio::test]
async fn a_failed_component_of_the_store_makes_the_judicator_not_ready() {
    let test = start(StoreFault::None);
    assert_eq!(test.judicator.check().await, Ok(Readiness { executors: 0 }));
    let writer = test
        .store
        .supervisor
        .thread(Component::StoreWriter, "writer".into(), || panic!("on purpose"));
    let failed = with_deadline(test.judicator.failure()).await;
    assert_eq!(failed.to_string(), "the store's writer panicked: on purpose");
    // An earlier answer is not reused after a failure.
    let unready = test.judicator.check().await;
    assert_eq!(unready, Err(CallError::Unavailable(failed.to_string())));
    writer.unwrap().join().unwrap();
}

#[tokio::test]
async fn a_stop_is_not_a_failure() {
    let TestJudicator {
        judicator,
        tracker,
        stop,
        ..
    } = start(StoreFault::None);
    stop.cancel();
    tracker.close();
    with_deadline(tracker.wait()).await;
    let failure = tokio::time::timeout(Duration::ZERO, judicator.failure()).await;
    assert!(failure.is_err(), "{failure:?}");
}

#[tokio::test]
async fn many_callers_share_one_readiness_check() {
    let test = start(StoreFault::None);
    let answers = futures::future::join_all((0..100).map(|_| test.judicator.check())).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(test.store.checks.load(Ordering::SeqCst), 1);
    // The answer is reused only for a while.
    with_deadline(async {
        while test.store.checks.load(Ordering::SeqCst) < 2 {
            test.judicator.check().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_store_that_cannot_write_makes_the_judicator_not_ready_in_time() {
    let check = async |fault, words: &str| {
        let test = start(fault);
        let error = with_deadline(test.judicator.check()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        test
    };
    check(
        StoreFault::CheckFails,
        "no space left on device for the store in /data/store",
    )
    .await;
    check(StoreFault::CheckPanics, "see the log of the judicator").await;
    let hanging = check(
        StoreFault::CheckHangs,
        "the store has not answered a readiness check for",
    )
    .await;
    // A later caller neither waits nor starts another check.
    let again = hanging.judicator.check().await;
    assert!(again.is_err());
    assert_eq!(hanging.store.checks.load(Ordering::SeqCst), 1);
}
