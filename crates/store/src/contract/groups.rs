//! Contract cases: the counters of groups.

use std::sync::Arc;

use model::{
    AttemptEnd, GroupKey, GroupName, GroupQuery, OutcomeReason, StoreAge, TaskId, TaskResult, TaskStatus,
    UserName,
};

use super::MAX_ATTEMPTS;
use super::fake_executor::FakeExecutor;
use super::fixtures::{
    add_task, add_task_with, compile_failure, counted, get_group, get_task, group_key, new_task, outcome,
    run_failure, success, task_spec,
};
use crate::TaskStore;

/// An age after every stamp.
const AFTER_ALL: StoreAge = StoreAge(i64::MAX);
/// An age before every stamp.
const BEFORE_ALL: StoreAge = StoreAge(0);

/// Adds a task to the group and returns its id.
async fn add_to(store: &Arc<dyn TaskStore>, group: &str) -> TaskId {
    add_task_with(&**store, |spec| {
        spec.group = Some(GroupName::new(group).unwrap());
    })
    .await
}

async fn check_counts(store: &Arc<dyn TaskStore>, expected: &[(TaskStatus, u64)]) {
    let state = get_group(&**store, "g").await;
    assert_eq!(counted(&state.counts), expected.iter().copied().collect());
}

pub async fn every_transition_is_counted(store: Arc<dyn TaskStore>) {
    use TaskStatus::*;
    assert_eq!(store.group(group_key("g")).await.unwrap(), None);
    add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    let mut ids = vec![];
    for _ in 0..6 {
        ids.push(add_to(&store, "g").await);
    }
    check_counts(&store, &[(Pending, 6)]).await;
    let state = get_group(&*store, "g").await;
    assert_eq!(state.add_time, get_task(&*store, ids[0]).await.add_time);
    assert_eq!((state.last_finish, state.reasons.len()), (None, 0));
    // A claim alone is not visible in the counters.
    let attempts: Vec<_> = executor.claim(5).await;
    let attempts: Vec<_> = attempts.iter().map(|assigned| assigned.attempt_id).collect();
    check_counts(&store, &[(Pending, 6)]).await;
    executor.report_status(ids[0], Compiling).await;
    executor.report_status(ids[1], Running).await;
    check_counts(&store, &[(Pending, 4), (Compiling, 1), (Running, 1)]).await;
    executor.finish(attempts[0], success()).await;
    executor.finish(attempts[1], run_failure()).await;
    executor.finish(attempts[2], compile_failure()).await;
    let mut done = vec![(Success, 1), (RunFailed, 1), (CompileFailed, 1)];
    check_counts(&store, &[&done[..], &[(Pending, 3)]].concat()).await;
    // A repeated report changes nothing.
    executor.finish(attempts[2], compile_failure()).await;
    let state = get_group(&*store, "g").await;
    assert_eq!(state.reasons, [(OutcomeReason::Exited, 2)].into());
    assert_eq!(state.last_finish, get_task(&*store, ids[2]).await.finish_time);
    store.cancel(ids[3]).await.unwrap();
    store.cancel(ids[3]).await.unwrap();
    done.push((Cancelled, 1));
    check_counts(&store, &[&done[..], &[(Pending, 2)]].concat()).await;
    // Given back, and then broken until it ends.
    executor
        .running
        .retain(|running| running.attempt_id != attempts[4]);
    executor.claim(0).await;
    check_counts(&store, &[&done[..], &[(Pending, 1), (Retrying, 1)]].concat()).await;
    for _ in 0..MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        assert_eq!(attempt_id.task, ids[4]);
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("no".into()))
            .await;
    }
    done.push((SystemError, 1));
    check_counts(&store, &[&done[..], &[(Pending, 1)]].concat()).await;
    // Lost with its executor.
    executor.claim_one().await;
    executor.expire().await;
    check_counts(&store, &[&done[..], &[(Retrying, 1)]].concat()).await;
    let last = get_task(&*store, ids[4]).await;
    let state = get_group(&*store, "g").await;
    assert_eq!((state.last_finish, state.finish_time()), (last.finish_time, None));
    assert_eq!(state.total(), 6);
}

pub async fn groups_of_other_users_are_other_groups(store: Arc<dyn TaskStore>) {
    let id = add_to(&store, "g").await;
    let of_bob = add_task_with(&*store, |spec| {
        spec.user = UserName::new("bob").unwrap();
        spec.group = Some(GroupName::new("g").unwrap());
    })
    .await;
    store.cancel(of_bob).await.unwrap();
    check_counts(&store, &[(TaskStatus::Pending, 1)]).await;
    store.cancel(id).await.unwrap();
    check_counts(&store, &[(TaskStatus::Cancelled, 1)]).await;
    assert!(get_group(&*store, "g").await.finish_time().is_some());
}

pub async fn failures_are_counted_by_the_reason_of_the_last_step(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let ended = |reason| {
        let mut failed = outcome(0);
        failed.reason = reason;
        failed.exit_code = None;
        Some(failed)
    };
    for result in [
        success(),
        TaskResult {
            execute: ended(OutcomeReason::TimeLimit),
            ..success()
        },
        TaskResult {
            execute: ended(OutcomeReason::TimeLimit),
            ..TaskResult::default()
        },
        TaskResult {
            compile: ended(OutcomeReason::MemoryLimit),
            ..TaskResult::default()
        },
    ] {
        let id = add_to(&store, "g").await;
        let attempt_id = executor.claim_one().await;
        executor.finish(attempt_id, result.clone()).await;
        assert_eq!(get_task(&*store, id).await.result, Some(result));
    }
    let expected = [(OutcomeReason::TimeLimit, 2), (OutcomeReason::MemoryLimit, 1)];
    assert_eq!(get_group(&*store, "g").await.reasons, expected.into());
}

pub async fn a_retried_task_leaves_the_counters_of_its_group(store: Arc<dyn TaskStore>) {
    use TaskStatus::*;
    let mut executor = FakeExecutor::new(&store, "e");
    let first = add_to(&store, "g").await;
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, run_failure()).await;
    let retry_of = |id: TaskId| {
        let mut spec = task_spec();
        spec.group = Some(GroupName::new("g").unwrap());
        spec.retry_of = Some(id);
        new_task(spec)
    };
    let again = retry_of(first);
    store.add(vec![again.clone()]).await.unwrap();
    check_counts(&store, &[(Pending, 1)]).await;
    assert_eq!(get_group(&*store, "g").await.reasons, [].into());
    // The call is repeated, and then the first task is retried once more: it is counted in neither case.
    store.add(vec![again.clone()]).await.unwrap();
    check_counts(&store, &[(Pending, 1)]).await;
    store.add(vec![retry_of(first)]).await.unwrap();
    check_counts(&store, &[(Pending, 2)]).await;
    // A task that is held is retried, too. Its end is not counted.
    let attempt_id = executor.claim_one().await;
    assert_eq!(attempt_id.task, again.id);
    store.add(vec![retry_of(again.id)]).await.unwrap();
    check_counts(&store, &[(Pending, 2)]).await;
    executor.finish(attempt_id, run_failure()).await;
    check_counts(&store, &[(Pending, 2)]).await;
    assert_eq!(get_task(&*store, again.id).await.spec.retry_of, Some(first));
    // Unknown tasks, and those of other users, are left alone.
    let mut of_bob = retry_of(add_to(&store, "g").await);
    of_bob.spec.user = UserName::new("bob").unwrap();
    let of_unknown = retry_of(TaskId(uuid::Uuid::now_v7()));
    store.add(vec![of_bob, of_unknown]).await.unwrap();
    check_counts(&store, &[(Pending, 4)]).await;
    // A batch may add a task and the one that repeats it.
    let repeated = retry_of(first);
    let repeating = retry_of(repeated.id);
    store.add(vec![repeated, repeating]).await.unwrap();
    check_counts(&store, &[(Pending, 5)]).await;
    // Retention does not subtract the retried tasks once more.
    let retired = store.apply_retention(AFTER_ALL, BEFORE_ALL, 10).await.unwrap();
    assert_eq!((retired.tasks, store.get(first).await.unwrap()), (2, None));
    check_counts(&store, &[(Pending, 5)]).await;
}

pub async fn many_tasks_are_cancelled_at_once(store: Arc<dyn TaskStore>) {
    use TaskStatus::*;
    let mut ids = vec![];
    for _ in 0..4 {
        ids.push(add_to(&store, "g").await);
    }
    let mut executor = FakeExecutor::new(&store, "e");
    let done = executor.claim_one().await;
    executor.finish(done, success()).await;
    executor.claim_one().await;
    let named = [&ids[..3], &[ids[1], TaskId(uuid::Uuid::now_v7())]].concat();
    assert_eq!(store.cancel_many(named.clone()).await.unwrap(), 2);
    check_counts(&store, &[(Success, 1), (Cancelled, 2), (Pending, 1)]).await;
    assert_eq!(store.totals().await.unwrap().held, 0);
    assert_eq!(store.cancel_many(named).await.unwrap(), 0);
    assert_eq!(store.cancel_many(vec![]).await.unwrap(), 0);
    let task = get_task(&*store, ids[1]).await;
    assert_eq!((task.status, task.executor), (Cancelled, None));
    // The executor must stop the attempt.
    assert_eq!(executor.running.len(), 1);
    executor.claim(0).await;
    assert_eq!(executor.running, []);
}

pub async fn a_group_ends_with_its_last_task(store: Arc<dyn TaskStore>) {
    add_to(&store, "g").await;
    let second = add_to(&store, "g").await;
    let other = add_to(&store, "h").await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, run_failure()).await;
    store.apply_retention(AFTER_ALL, BEFORE_ALL, 10).await.unwrap();
    check_counts(&store, &[(TaskStatus::Pending, 1)]).await;
    assert_eq!(get_group(&*store, "g").await.reasons, [].into());
    store.cancel_many(vec![second, other]).await.unwrap();
    store.apply_retention(AFTER_ALL, BEFORE_ALL, 1).await.unwrap();
    store.apply_retention(AFTER_ALL, BEFORE_ALL, 1).await.unwrap();
    assert_eq!(store.group(group_key("g")).await.unwrap(), None);
    assert_eq!(store.groups(GroupQuery::default()).await.unwrap().groups, []);
    // A new group of the same name begins with new counters.
    let id = add_to(&store, "g").await;
    let state = get_group(&*store, "g").await;
    assert_eq!((state.total(), state.last_finish), (1, None));
    assert_eq!(state.add_time, get_task(&*store, id).await.add_time);
}

pub async fn groups_are_listed_by_user_and_name(store: Arc<dyn TaskStore>) {
    let names = [
        ("ada", "a"),
        ("ada", "b b"),
        ("ada", "é"),
        ("bob", "a"),
        ("bob x", "a"),
    ];
    let mut keys = vec![];
    for (user, group) in names {
        let key = GroupKey {
            user: UserName::new(user).unwrap(),
            group: GroupName::new(group).unwrap(),
        };
        for _ in 0..2 {
            add_task_with(&*store, |spec| {
                spec.user = key.user.clone();
                spec.group = Some(key.group.clone());
            })
            .await;
        }
        keys.push(key);
    }
    let list = async |user: Option<&str>, limit: usize| {
        let mut query = GroupQuery {
            user: user.map(|user| UserName::new(user).unwrap()),
            after: None,
            limit,
        };
        let mut listed = vec![];
        loop {
            let page = store.groups(query.clone()).await.unwrap();
            assert!(page.groups.len() <= limit);
            for state in page.groups {
                assert_eq!(
                    store.group(state.key.clone()).await.unwrap().as_ref(),
                    Some(&state)
                );
                assert_eq!(state.total(), 2);
                listed.push(state.key);
            }
            query.after = page.next;
            if query.after.is_none() {
                return listed;
            }
        }
    };
    for limit in [1, 2, 100] {
        assert_eq!(list(None, limit).await, keys);
        assert_eq!(list(Some("ada"), limit).await, keys[..3]);
        assert_eq!(list(Some("bob"), limit).await, keys[3..4]);
        assert_eq!(list(Some("eve"), limit).await, []);
    }
}
