//! A judicator whose store or whose own components fail.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use judicator::{Judicator, Options};
use model::{Added, Age, BlobHash, Bounds, ExecutorState, LimitPolicy, Page, Query, Report, Task, TaskId};
use rpc::{CallError, Calls, Ready};
use store::{
    BlobBytes, BlobFile, BlobShelf, Change, NewTask, Reported, Retired, SessionSeen, StoreError, TaskStore,
    Totals,
};
use supervise::{Component, Failures, How, Supervisor};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    SessionsPanic,
    ChangesEnd,
    CheckFails,
    CheckHangs,
    CheckPanics,
}

struct FakeStore {
    flaw: Flaw,
    checks: AtomicU32,
    changes: broadcast::Sender<Change>,
    supervisor: Supervisor,
}

fn unused<T>() -> Result<T, StoreError> {
    Err(StoreError::Closed)
}

#[async_trait]
impl TaskStore for FakeStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        match self.flaw {
            Flaw::CheckFails => Err(StoreError::Full {
                path: "/data/store".into(),
            }),
            Flaw::CheckHangs => pending().await,
            Flaw::CheckPanics => panic!("on purpose"),
            _ => Ok(()),
        }
    }
    fn failures(&self) -> Failures {
        self.supervisor.failures()
    }
    async fn executors(&self) -> Result<Vec<ExecutorState>, StoreError> {
        Ok(vec![])
    }
    async fn live_sessions(&self) -> Result<Vec<SessionSeen>, StoreError> {
        match self.flaw {
            Flaw::SessionsPanic => panic!("on purpose"),
            _ => Ok(vec![]),
        }
    }
    fn changes(&self) -> broadcast::Receiver<Change> {
        match self.flaw {
            Flaw::ChangesEnd => broadcast::channel(1).1,
            _ => self.changes.subscribe(),
        }
    }
    fn incoming(&self) -> PathBuf {
        PathBuf::new()
    }
    async fn add(&self, _: Vec<NewTask>) -> Result<Vec<Added>, StoreError> {
        unused()
    }
    async fn cancel(&self, _: TaskId) -> Result<Option<Task>, StoreError> {
        unused()
    }
    async fn get(&self, _: TaskId) -> Result<Option<Task>, StoreError> {
        unused()
    }
    async fn search(&self, _: Query) -> Result<Page, StoreError> {
        unused()
    }
    async fn totals(&self) -> Result<Totals, StoreError> {
        unused()
    }
    async fn report(&self, _: Report) -> Result<Reported, StoreError> {
        unused()
    }
    async fn expire(&self, _: SessionSeen) -> Result<Option<usize>, StoreError> {
        unused()
    }
    async fn forget_executors(&self, _: Age) -> Result<usize, StoreError> {
        unused()
    }
    async fn retire(&self, _: Age, _: Age, _: usize) -> Result<Retired, StoreError> {
        unused()
    }
    async fn put_blob(&self, _: BlobFile) -> Result<(), StoreError> {
        unused()
    }
    async fn has_blobs(&self, _: Vec<BlobHash>) -> Result<Vec<Option<u64>>, StoreError> {
        unused()
    }
    async fn age(&self) -> Result<Age, StoreError> {
        Ok(Age::default())
    }
    async fn advance_age(&self, from: Age, _: Duration) -> Result<Age, StoreError> {
        Ok(from)
    }
    async fn scan_blobs(&self, _: u8) -> Result<BlobShelf, StoreError> {
        Ok(BlobShelf::default())
    }
    async fn damaged_blobs(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
    async fn get_blob(&self, _: BlobHash) -> Result<Option<BlobBytes>, StoreError> {
        unused()
    }
}

struct Stage {
    store: Arc<FakeStore>,
    judicator: Arc<Judicator>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

fn start(flaw: Flaw) -> Stage {
    let store = Arc::new(FakeStore {
        flaw,
        checks: AtomicU32::new(0),
        changes: broadcast::Sender::new(8),
        supervisor: Supervisor::new(),
    });
    let options = Options {
        name: "j".into(),
        address: "127.0.0.1:1".into(),
        version: "1".into(),
        store: "fake".into(),
        limits: LimitPolicy::default(),
        capacity: None,
        bounds: Bounds::default(),
        max_blob: 1,
        lease: Duration::from_millis(50),
        grace: Duration::from_millis(50),
        keep_done: None,
        keep_blobs: Duration::from_secs(60),
        forget_executors: Duration::from_secs(60),
        scan_blobs: Duration::from_secs(60),
        roster: None,
    };
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let leading = watch::channel(true).1;
    let judicator = Judicator::start(options, store.clone(), leading, &tracker, &stop);
    Stage {
        store,
        judicator,
        tracker,
        stop,
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.unwrap()
}

#[tokio::test]
async fn a_component_that_dies_is_told_and_makes_the_judicator_unready() {
    for (flaw, component, how) in [
        (
            Flaw::SessionsPanic,
            Component::Expiry,
            How::Panicked("on purpose".into()),
        ),
        (Flaw::ChangesEnd, Component::Dispatch, How::Returned),
    ] {
        let stage = start(flaw);
        let failed = soon(stage.judicator.failure()).await;
        assert_eq!((failed.component, &failed.how), (component, &how));
        // The store works; the judicator does not.
        assert_eq!(
            stage.judicator.check().await,
            Err(CallError::Unavailable(failed.to_string()))
        );
    }
}

#[tokio::test]
async fn a_failure_of_the_store_is_one_of_the_judicator() {
    let stage = start(Flaw::None);
    assert_eq!(stage.judicator.check().await, Ok(Ready { executors: 0 }));
    let writer = stage
        .store
        .supervisor
        .thread(Component::StoreWriter, "writer".into(), || panic!("on purpose"));
    let failed = soon(stage.judicator.failure()).await;
    assert_eq!(failed.to_string(), "the store's writer panicked: on purpose");
    // Also while an answer from before would still serve.
    let unready = stage.judicator.check().await;
    assert_eq!(unready, Err(CallError::Unavailable(failed.to_string())));
    writer.unwrap().join().unwrap();
}

#[tokio::test]
async fn stopping_is_no_failure() {
    let Stage {
        judicator,
        tracker,
        stop,
        ..
    } = start(Flaw::None);
    stop.cancel();
    tracker.close();
    soon(tracker.wait()).await;
    let failure = tokio::time::timeout(Duration::ZERO, judicator.failure()).await;
    assert!(failure.is_err(), "{failure:?}");
}

#[tokio::test]
async fn many_who_ask_cost_one_check() {
    let stage = start(Flaw::None);
    let answers = futures::future::join_all((0..100).map(|_| stage.judicator.check())).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(stage.store.checks.load(Ordering::SeqCst), 1);
    // The answer does not serve for ever.
    soon(async {
        while stage.store.checks.load(Ordering::SeqCst) < 2 {
            stage.judicator.check().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_store_that_does_not_take_a_write_is_told_in_time() {
    let check = async |flaw, words: &str| {
        let stage = start(flaw);
        let error = soon(stage.judicator.check()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        stage
    };
    check(Flaw::CheckFails, "no room left for the store in /data/store").await;
    check(Flaw::CheckPanics, "the log of the judicator says why").await;
    let hanging = check(Flaw::CheckHangs, "the store has not answered a check for").await;
    // Whoever asks later does not wait, and does not start another.
    let again = hanging.judicator.check().await;
    assert!(again.is_err());
    assert_eq!(hanging.store.checks.load(Ordering::SeqCst), 1);
}
