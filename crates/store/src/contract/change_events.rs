//! Contract cases: the change events that a store publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{AttemptEnd, ExecutingAttempt, GroupName, Report, StoreAge, TaskId, TaskStatus};
use tokio::sync::broadcast::Receiver;

use super::MAX_ATTEMPTS;
use super::fake_executor::{FakeExecutor, completed};
use super::fixtures::{add_task, new_task, requiring, success, task_spec, tools};
use crate::{ChangeEvent, NewTaskRecord, TaskStore};

/// The change events that a subscriber of the store under test received, summed up for comparison in contract tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedEvents {
    status_changes: BTreeMap<TaskId, Vec<TaskStatus>>,
    revoked_from: Vec<String>,
    /// By requirement.
    tasks_queued: BTreeMap<String, usize>,
    groups_changed: Vec<String>,
}

/// The requirement of a task that any executor may run.
const NO_REQUIREMENT: &str = "/";

/// Receives all events of earlier changes. To find their end, it adds one more task (the mark) and waits for its
/// events.
async fn receive_events(
    store: &Arc<dyn TaskStore>,
    subscription: &mut Receiver<ChangeEvent>,
) -> ReceivedEvents {
    let mark = add_task(&**store).await;
    let mut received = ReceivedEvents::default();
    let mut mark_added = false;
    loop {
        match subscription.recv().await.unwrap() {
            ChangeEvent::StatusChanged { id, .. } if id == mark => mark_added = true,
            ChangeEvent::StatusChanged { id, status, .. } => {
                received.status_changes.entry(id).or_default().push(status)
            }
            ChangeEvent::AttemptRevoked(name) => received.revoked_from.push(name.to_string()),
            ChangeEvent::TasksQueued { requires, count } => {
                *received.tasks_queued.entry(requires.to_string()).or_default() += count;
                if mark_added {
                    break;
                }
            }
            ChangeEvent::GroupChanged(key) => received.groups_changed.push(key.group.to_string()),
            ChangeEvent::DrainChanged(name) => panic!("{name} was not drained"),
            ChangeEvent::EventsLost => panic!("nothing happened that could lose events"),
        }
    }
    let without_requirement = received.tasks_queued.get_mut(NO_REQUIREMENT).unwrap();
    *without_requirement -= 1;
    received.tasks_queued.retain(|_, count| *count > 0);
    store.cancel(mark).await.unwrap();
    while !matches!(subscription.recv().await.unwrap(), ChangeEvent::StatusChanged { id, .. } if id == mark) {
    }
    // A read after an event shows at least the state that the event announced.
    let mark = store.get_after_event(mark).await.unwrap();
    assert_eq!(mark.map(|task| task.status), Some(TaskStatus::Cancelled));
    received
}

pub async fn added_tasks_are_published(store: Arc<dyn TaskStore>) {
    let mut subscription = store.subscribe();
    let tasks = [new_task(task_spec()), new_task(task_spec())];
    store
        .add(vec![tasks[0].clone(), tasks[1].clone(), tasks[0].clone()])
        .await
        .unwrap();
    let status_changes = tasks
        .iter()
        .map(|task| (task.id, vec![TaskStatus::Pending]))
        .collect();
    let expected = ReceivedEvents {
        status_changes,
        revoked_from: vec![],
        tasks_queued: [(NO_REQUIREMENT.into(), 2)].into(),
        groups_changed: vec![],
    };
    assert_eq!(receive_events(&store, &mut subscription).await, expected);
    store.add(tasks.to_vec()).await.unwrap();
    assert_eq!(
        receive_events(&store, &mut subscription).await,
        ReceivedEvents::default(),
        "the tasks existed already"
    );
}

pub async fn status_changes_are_published(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut subscription = store.subscribe();
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.report_status(id, TaskStatus::Running).await;
    executor.report_status(id, TaskStatus::Running).await;
    assert!(matches!(
        subscription.recv().await.unwrap(),
        ChangeEvent::StatusChanged { id: changed, status: TaskStatus::Running, executor: Some(by), .. }
            if changed == id && by == executor.name
    ));
    executor.finish(attempt_id, success()).await;
    let status_changes = [(id, vec![TaskStatus::Success])].into();
    assert_eq!(
        receive_events(&store, &mut subscription).await,
        ReceivedEvents {
            status_changes,
            ..ReceivedEvents::default()
        }
    );
}

pub async fn revoked_attempts_are_published(store: Arc<dyn TaskStore>) {
    let (waiting, held) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = FakeExecutor::new(&store, "e");
    store.cancel(waiting).await.unwrap();
    executor.claim_one().await;
    let mut subscription = store.subscribe();
    store.cancel(held).await.unwrap();
    store.cancel(held).await.unwrap();
    let status_changes = [(held, vec![TaskStatus::Cancelled])].into();
    let expected = ReceivedEvents {
        status_changes,
        revoked_from: vec!["e".into()],
        tasks_queued: BTreeMap::new(),
        groups_changed: vec![],
    };
    assert_eq!(receive_events(&store, &mut subscription).await, expected);
}

pub async fn released_tasks_are_published(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    let mut subscription = store.subscribe();
    // Released once, then lost until the task ends. The last loss does not queue it again.
    executor.running.clear();
    executor.claim(0).await;
    for _ in 0..MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("no".into()))
            .await;
    }
    let mut statuses = vec![TaskStatus::Retrying; MAX_ATTEMPTS as usize];
    statuses.push(TaskStatus::SystemError);
    let expected = ReceivedEvents {
        status_changes: [(id, statuses)].into(),
        revoked_from: vec![],
        tasks_queued: [(NO_REQUIREMENT.into(), MAX_ATTEMPTS as usize)].into(),
        groups_changed: vec![],
    };
    assert_eq!(receive_events(&store, &mut subscription).await, expected);
}

/// So that hints go to executors that can take the tasks.
pub async fn queued_tasks_are_published_with_their_requirement(store: Arc<dyn TaskStore>) {
    let mut subscription = store.subscribe();
    let tasks = ["/c", "lab/c", "/c", "lab/"].map(|key| new_task(requiring(key)));
    let ids: Vec<_> = tasks.iter().map(|task| task.id).collect();
    store.add(tasks.to_vec()).await.unwrap();
    let counts = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
        counts
            .iter()
            .map(|(key, count)| (key.to_string(), *count))
            .collect()
    };
    let received = receive_events(&store, &mut subscription).await;
    assert_eq!(
        received.tasks_queued,
        counts(&[("/c", 2), ("lab/", 1), ("lab/c", 1)])
    );
    assert_eq!(received.status_changes.into_keys().collect::<Vec<_>>(), ids);
    let mut executor = FakeExecutor::new(&store, "e");
    executor.tools = Some(tools(&["lab/"]));
    executor.claim_one().await;
    executor.running.clear();
    executor.claim(0).await;
    let released = receive_events(&store, &mut subscription).await;
    assert_eq!(released.tasks_queued, counts(&[("lab/", 1)]));
}

/// A commit that changes many tasks of a group publishes the group once.
pub async fn changed_groups_are_published_once(store: Arc<dyn TaskStore>) {
    let mut subscription = store.subscribe();
    let mut groups_changed = async || receive_events(&store, &mut subscription).await.groups_changed;
    let mut spec = task_spec();
    spec.group = Some(GroupName::new("g").unwrap());
    let tasks: Vec<_> = (0..5).map(|_| new_task(spec.clone())).collect();
    store.add(tasks.clone()).await.unwrap();
    assert_eq!(groups_changed().await, ["g"], "add");
    store.add(tasks.clone()).await.unwrap();
    assert_eq!(groups_changed().await, [""; 0], "add again");
    let mut executor = FakeExecutor::new(&store, "e");
    let assigned = executor.claim(5).await;
    assert_eq!(groups_changed().await, [""; 0], "claim");
    executor.running.clear();
    let finished = Report {
        complete: assigned[..2]
            .iter()
            .map(|assigned| completed(assigned.attempt_id, AttemptEnd::Result(success())))
            .collect(),
        // The third one is given back.
        executing: assigned[3..]
            .iter()
            .map(|assigned| ExecutingAttempt {
                attempt_id: assigned.attempt_id,
                status: Some(TaskStatus::Running),
            })
            .collect(),
        ..executor.next_report()
    };
    executor.send(finished).await;
    assert_eq!(groups_changed().await, ["g"], "report");
    let ids = tasks.iter().map(|task| task.id).collect();
    assert_eq!(store.cancel_many(ids).await.unwrap(), 3);
    assert_eq!(groups_changed().await, ["g"], "cancel");
    let retired = store.apply_retention(StoreAge(i64::MAX), StoreAge(0), 100).await;
    assert!(retired.unwrap().tasks >= 5);
    assert_eq!(groups_changed().await, ["g"], "retention");
}

pub async fn refused_adds_publish_nothing(store: Arc<dyn TaskStore>) {
    let task = new_task(task_spec());
    store.add(vec![task.clone()]).await.unwrap();
    let mut subscription = store.subscribe();
    let other = NewTaskRecord {
        digest: [1; 32],
        ..task
    };
    store.add(vec![new_task(task_spec()), other]).await.unwrap_err();
    assert_eq!(
        receive_events(&store, &mut subscription).await,
        ReceivedEvents::default()
    );
}
