//! Calls that wait until a task is done.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{TaskId, TaskStatus, UnixTime};
use rpc::Calls;
use store::ChangeEvent;
use tokio::time::Instant;

use super::harness::{StoreFault, TestJudicator, start, with_deadline};

/// The primary of a replica set that has just been elected may show an earlier state than the change stream.
#[tokio::test]
async fn a_waiting_get_returns_the_done_task_although_ordinary_reads_lag() {
    let TestJudicator { store, judicator, .. } = start(StoreFault::LaggingGet);
    let id = TaskId(uuid::Uuid::now_v7());
    let event = |status| ChangeEvent::StatusChanged {
        id,
        status,
        executor: None,
        time: UnixTime(2),
    };
    let begun = Instant::now();
    let get = judicator.get(id, Some(Duration::from_secs(3600)));
    let events = async {
        // The first read comes after the subscription to the events.
        while store.reads.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        store.changes.send(event(TaskStatus::Running)).unwrap();
        store.changes.send(event(TaskStatus::Success)).unwrap();
    };
    let (task, ()) = with_deadline(async { tokio::join!(get, events) }).await;
    assert_eq!(task.unwrap().status, TaskStatus::Success);
    // One read before the events, and one after the event that the task is done: there is no polling.
    assert_eq!(store.reads.load(Ordering::SeqCst), 2);
    assert!(begun.elapsed() < Duration::from_secs(30));
}
