//! Groups of tasks: waiting, cancelling and retrying.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use model::{GroupQuery, TaskId, TaskQuery, TaskStatus};
use rpc::{CallError, Calls, CancelledTasks};
use tokio::time::Instant;

use super::harness::with_deadline;
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, add_group, group_key, new_id};

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
        let mut total = 0;
        loop {
            let CancelledTasks { cancelled, more } =
                judicator.cancel_matching(query(statuses)).await.unwrap();
            total += cancelled;
            if !more {
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
    assert_eq!((ids.len(), retried.more, repeated.more), (150, false, false));
    let again = judicator.retry_group(key.clone(), None).await.unwrap();
    assert_eq!((again.ids.len(), again.more), (0, false));
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
    assert_eq!((first.ids.len(), first.until.is_some()), (3, true));
    // The new tasks fail before the request goes on.
    fail_all().await;
    let next = judicator.retry_group(key.clone(), first.until).await.unwrap();
    assert_eq!((next.ids, next.more, next.until), (vec![], false, first.until));
    // Another request retries them.
    let other = judicator.retry_group(key, None).await.unwrap();
    assert_eq!(other.ids.len(), 3);
}
