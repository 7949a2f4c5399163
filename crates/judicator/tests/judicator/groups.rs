//! Groups of tasks: waiting, cancelling and retrying.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use model::{AddTask, BlobHash, Content, GroupQuery, TaskId, TaskQuery, TaskSpec, TaskStatus};
use rpc::{CallError, Calls, CancelledTasks, RetryProgress};
use store::ChangeEvent;
use tokio::time::Instant;

use super::harness::{SLOW_PAGES, StoreFault, TestJudicator, start, with_deadline};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, add_group, group_key, new_id, spec};

#[tokio::test]
async fn a_wait_for_a_group_ends_with_its_last_task() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let key = group_key("sweep");
    let unknown = judicator.group(key.clone(), Some(Duration::from_secs(60))).await;
    assert_eq!(unknown, Err(CallError::NoGroup(key.clone())));
    add_group(judicator, "sweep", 3).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(3).await;
    let mut wait = judicator
        .group(key.clone(), Some(Duration::from_secs(3600)))
        .boxed();
    let mut states = judicator.group_events(key.clone()).await.unwrap();
    assert_eq!(states.next().await.unwrap().unwrap().total(), 3);
    let begun = Instant::now();
    executor.finish(&attempts[..2], 0).await;
    assert_eq!(with_deadline(states.next()).await.unwrap().unwrap().done(), 2);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "the change woke the stream"
    );
    // A wait that is over returns the state as it is.
    let begun = Instant::now();
    let early = judicator
        .group(key.clone(), Some(Duration::from_millis(50)))
        .await;
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let early = early.unwrap();
    assert_eq!((early.done(), early.finish_time()), (2, None));
    assert!((&mut wait).now_or_never().is_none());
    let begun = Instant::now();
    executor.finish(&attempts[2..], 1).await;
    let done = with_deadline(wait).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "the change woke the wait"
    );
    let counts = BTreeMap::from([(TaskStatus::Success, 2), (TaskStatus::RunFailed, 1)]);
    let found: BTreeMap<_, _> = done.counts.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(found, counts);
    assert!(with_deadline(states.next()).await.unwrap().unwrap().is_done());
    assert!(with_deadline(states.next()).await.is_none());
    let page = judicator.groups(GroupQuery::default()).await.unwrap();
    assert_eq!((page.groups.len(), &page.groups[0].key), (1, &key));
}

#[tokio::test]
async fn thousands_of_tasks_are_cancelled_in_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    add_group(judicator, "sweep", 3000).await;
    let others = add_group(judicator, "other", 2).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(2).await;
    executor.finish(&attempts[..1], 0).await;
    let unfiltered = judicator.cancel_matching(TaskQuery::default()).await;
    assert!(matches!(unfiltered, Err(CallError::Invalid(_))), "{unfiltered:?}");
    let query = |statuses: &[TaskStatus]| TaskQuery {
        group: Some(group_key("sweep").group),
        statuses: statuses.to_vec(),
        ..TaskQuery::default()
    };
    let cancel = async |statuses: &[TaskStatus]| {
        let (mut total, mut query) = (0, query(statuses));
        loop {
            let CancelledTasks { cancelled, next } = judicator.cancel_matching(query.clone()).await.unwrap();
            total += cancelled;
            query.after = next;
            if next.is_none() {
                return total;
            }
        }
    };
    assert_eq!(cancel(&[TaskStatus::Success]).await, 0);
    assert_eq!(cancel(&[]).await, 2999);
    assert_eq!(cancel(&[]).await, 0);
    let state = judicator.group(group_key("sweep"), None).await.unwrap();
    assert_eq!((state.total(), state.done()), (3000, 3000));
    assert_eq!(state.counts.get(&TaskStatus::Cancelled), Some(&2999));
    let other = judicator.get(others[0], None).await.unwrap();
    assert_eq!(other.status, TaskStatus::Pending);
}

#[tokio::test]
async fn a_repeated_retry_adds_one_task() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let id = add_group(judicator, "sweep", 1).await[0];
    let new = new_id();
    assert_eq!(judicator.retry(id, new).await, Err(CallError::NotDone(id)));
    let missing = new_id();
    assert_eq!(
        judicator.retry(missing, new).await,
        Err(CallError::NoTask(missing))
    );
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempt = executor.claim_one().await;
    executor.finish(&[attempt], 1).await;
    let retried = judicator.retry(id, new).await.unwrap();
    assert_eq!((retried.id, retried.status), (new, TaskStatus::Pending));
    assert_eq!(retried.spec.retry_of, Some(id));
    let old = judicator.get(id, None).await.unwrap();
    assert_eq!(
        (&retried.spec.group, retried.spec.attempts),
        (&old.spec.group, Some(3))
    );
    assert_eq!(judicator.retry(id, new).await.unwrap(), retried);
    let state = judicator.group(group_key("sweep"), None).await.unwrap();
    assert_eq!((state.total(), state.done()), (1, 0));
}

#[tokio::test]
async fn a_repeated_retry_of_a_group_adds_each_task_once() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let key = group_key("sweep");
    assert_eq!(
        judicator.retry_group(key.clone(), None).await,
        Err(CallError::NoGroup(key.clone()))
    );
    add_group(judicator, "sweep", 250).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(250).await;
    executor.finish(&attempts[..100], 0).await;
    executor.finish(&attempts[100..220], 1).await;
    // The rest is cancelled, which is no success either.
    for attempt in &attempts[220..] {
        judicator.cancel(attempt.task).await.unwrap();
    }
    // A caller that gave up waiting repeats the call while the first is under way.
    let calls = [
        judicator.retry_group(key.clone(), None),
        judicator.retry_group(key.clone(), None),
    ];
    let [retried, repeated] = futures::future::join_all(calls).await.try_into().unwrap();
    let (retried, repeated) = (retried.unwrap(), repeated.unwrap());
    let mut ids: Vec<_> = retried.ids.iter().chain(&repeated.ids).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), retried.next, repeated.next), (150, None, None));
    let again = judicator.retry_group(key.clone(), None).await.unwrap();
    assert_eq!((again.ids.len(), again.next), (0, None));
    let mut repeated = HashSet::new();
    for id in &ids {
        let task = judicator.get(*id, None).await.unwrap();
        assert_eq!(task.status, TaskStatus::Pending);
        repeated.extend(task.spec.retry_of);
    }
    let failed: HashSet<TaskId> = attempts[100..].iter().map(|attempt| attempt.task).collect();
    assert_eq!(repeated, failed);
    let state = judicator.group(key, None).await.unwrap();
    assert_eq!((state.total(), state.done()), (250, 100));
}

#[tokio::test]
async fn a_continued_retry_leaves_the_tasks_of_the_call_before() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let key = group_key("sweep");
    add_group(judicator, "sweep", 3).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let mut fail_all = async || {
        let attempts = executor.claim(3).await;
        executor.finish(&attempts, 1).await;
    };
    fail_all().await;
    let first = judicator.retry_group(key.clone(), None).await.unwrap();
    assert_eq!((first.ids.len(), first.next), (3, None));
    let added = judicator.get(first.ids[0], None).await.unwrap().add_time;
    // The new tasks fail before the request goes on.
    fail_all().await;
    let begun = RetryProgress {
        until: added,
        after: None,
    };
    let next = judicator.retry_group(key.clone(), Some(begun)).await.unwrap();
    assert_eq!((next.ids, next.next), (vec![], None));
    // Another request retries them.
    let other = judicator.retry_group(key, None).await.unwrap();
    assert_eq!(other.ids.len(), 3);
}

/// The answer of a call is in time, and no page of tasks is read twice, however many pages have no match.
#[tokio::test(start_paused = true)]
async fn a_long_search_is_continued_where_a_call_has_ended() {
    let TestJudicator { store, judicator, .. } = start(StoreFault::SlowSearch);
    let longest = Duration::from_secs(5);
    let mut query = TaskQuery {
        group: Some(group_key("sweep").group),
        ..TaskQuery::default()
    };
    let mut calls = 0;
    loop {
        let call = judicator.cancel_matching(query.clone());
        query.after = tokio::time::timeout(longest, call).await.unwrap().unwrap().next;
        calls += 1;
        if query.after.is_none() {
            break;
        }
    }
    let pages = store.reads.swap(0, Ordering::SeqCst);
    assert!(
        calls > 1 && pages == SLOW_PAGES,
        "{calls} calls read {pages} pages"
    );
    let (mut continues, mut calls) = (None, 0);
    loop {
        let call = judicator.retry_group(group_key("sweep"), continues);
        continues = tokio::time::timeout(longest, call).await.unwrap().unwrap().next;
        calls += 1;
        if continues.is_none() {
            break;
        }
    }
    // One more page, to find the newest task.
    let pages = store.reads.load(Ordering::SeqCst);
    assert!(
        calls > 1 && pages == SLOW_PAGES + 1,
        "{calls} calls read {pages} pages"
    );
}

#[tokio::test]
async fn a_task_that_cannot_be_retried_does_not_keep_the_others_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start(folder.path());
    let content = Bytes::from_static(b"input");
    let hash = BlobHash::of(&content);
    let bytes = futures::stream::iter([Ok(content)]).boxed();
    judicator.put_blob(hash, None, bytes).await.unwrap();
    let mut spec = TaskSpec {
        group: Some(group_key("sweep").group),
        ..spec()
    };
    spec.execute.input = Content::Blob(hash);
    let id = new_id();
    judicator.add(vec![AddTask::new(id, spec)]).await.unwrap();
    let others = add_group(judicator, "sweep", 2).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(3).await;
    executor.finish(&attempts, 1).await;
    // A read finds that the blob of the first task is lost.
    let name = hash.to_string();
    let file = folder.path().join("blobs").join(&name[..2]).join(&name[2..]);
    std::fs::remove_file(file).unwrap();
    assert!(judicator.get_blob(hash).await.is_err());
    let retried = judicator.retry_group(group_key("sweep"), None).await.unwrap();
    let mut repeated = Vec::new();
    for id in retried.ids {
        repeated.extend(judicator.get(id, None).await.unwrap().spec.retry_of);
    }
    assert_eq!((repeated, retried.next), (others, None));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_group_share_its_reads() {
    const CALLS: u32 = 50;
    let TestJudicator { store, judicator, .. } = start(StoreFault::SlowSearch);
    let key = group_key("sweep");
    let wait = || judicator.group(key.clone(), Some(Duration::from_secs(10)));
    let waits = futures::future::join_all((0..CALLS).map(|_| wait()));
    let changes = async {
        for _ in 0..450 {
            store
                .changes
                .send(ChangeEvent::GroupChanged(key.clone()))
                .unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (states, ()) = tokio::join!(waits, changes);
    assert!(states.iter().all(Result::is_ok));
    // Each call reads at its beginning and its end. In between there are ten reads in a second for all.
    let shared = store.group_reads.load(Ordering::SeqCst) - 2 * CALLS;
    assert!((80..=101).contains(&shared), "{shared}");
}
