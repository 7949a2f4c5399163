//! Calls that wait until a task is done, or follow its status.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use model::{AddTask, TaskId, TaskStatus, UnixTime};
use rpc::Calls;
use store::ChangeEvent;
use tokio::time::Instant;

use super::harness::{StoreFault, TestJudicator, start, with_deadline};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, spec};

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

/// The events of the first attempt arrive after the task was read in its second one.
#[tokio::test]
async fn events_from_before_the_first_read_are_not_passed_on() {
    let TestJudicator { store, judicator, .. } = start(StoreFault::RunningTask);
    let id = TaskId(uuid::Uuid::now_v7());
    let mut events = judicator.events(id).await.unwrap();
    let mut next = async || {
        with_deadline(events.next())
            .await
            .map(|event| event.unwrap().status)
    };
    assert_eq!(next().await, Some(TaskStatus::Running));
    for status in [TaskStatus::Retrying, TaskStatus::Running, TaskStatus::Success] {
        let event = ChangeEvent::StatusChanged {
            id,
            status,
            executor: None,
            time: UnixTime(2),
        };
        store.changes.send(event).unwrap();
    }
    assert_eq!(next().await, Some(TaskStatus::Success));
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn each_retry_of_a_task_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let id = new_id();
    judicator.add(vec![AddTask::new(id, spec())]).await.unwrap();
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let mut events = judicator.events(id).await.unwrap();
    let mut next = async || {
        with_deadline(events.next())
            .await
            .map(|event| event.unwrap().status)
    };
    assert_eq!(next().await, Some(TaskStatus::Pending));
    // The third one begins before the follower has seen the end of the second.
    for _ in 0..3 {
        executor.claim_one().await;
        executor.report_status(TaskStatus::Running).await;
        executor.give_back().await;
    }
    for _ in 0..3 {
        assert_eq!(next().await, Some(TaskStatus::Running));
        assert_eq!(next().await, Some(TaskStatus::Retrying));
    }
}
