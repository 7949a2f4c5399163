//! The counters of groups, which are spread over several documents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use model::{
    AttemptEnd, GroupKey, GroupName, GroupQuery, OutcomeReason, Report, StatusCounts, StoreAge, TaskId,
    TaskQuery, TaskResult, TaskStatus, TaskSummary, UserName,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use store::contract::fake_executor::{FakeExecutor, completed, instructions};
use store::contract::fixtures::{add_task_with, new_task, run_failure, success, task_spec};
use store::{ChangeEvent, NewTaskRecord, TaskStore};
use tokio::task::JoinSet;

use super::change_stream::times_entered;
use super::replica_set::{TestAuthentication, TestReplicaSet};

const TASKS: usize = 200;
const EXECUTORS: usize = 6;
/// No group has more documents than this.
const MAX_STRIPES: u64 = 64;
const END_OF_TIME: StoreAge = StoreAge(i64::MAX);

fn key(name: &str) -> GroupKey {
    GroupKey {
        user: UserName::new("ada").unwrap(),
        group: GroupName::new(name).unwrap(),
    }
}

fn group_task(name: &str) -> NewTaskRecord {
    let mut spec = task_spec();
    spec.group = Some(GroupName::new(name).unwrap());
    new_task(spec)
}

/// Runs tasks until none is left. Each second task fails.
async fn run_tasks(mut executor: FakeExecutor) {
    loop {
        let results = [success(), run_failure()].into_iter().cycle();
        let ended = std::mem::take(&mut executor.running).into_iter().zip(results);
        let complete = ended.map(|(running, result): (_, TaskResult)| {
            completed(running.attempt_id, AttemptEnd::Result(result))
        });
        let report = Report {
            complete: complete.collect(),
            vacant: 5,
            ..executor.next_report()
        };
        if instructions(executor.send(report).await).assign.is_empty() {
            return;
        }
    }
}

/// The tasks that the group counts, as the lists show them.
async fn listed_tasks(store: &dyn TaskStore, name: &str) -> Vec<TaskSummary> {
    let mut tasks = vec![];
    let mut query = TaskQuery {
        group: Some(GroupName::new(name).unwrap()),
        retried: Some(false),
        limit: 1000,
        ..TaskQuery::default()
    };
    loop {
        let page = store.search(query.clone()).await.unwrap();
        tasks.extend(page.tasks);
        match page.next {
            Some(_) => query.after = page.next,
            None => return tasks,
        }
    }
}

fn count(tasks: &[TaskSummary]) -> (StatusCounts, BTreeMap<OutcomeReason, u64>) {
    let (mut counts, mut reasons) = (StatusCounts::new(), BTreeMap::new());
    for task in tasks {
        *counts.entry(task.status).or_default() += 1;
        if let Some(reason) = task.reason.filter(|_| task.status == TaskStatus::RunFailed) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    (counts, reasons)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_a_group_hold_while_several_judicators_change_its_tasks() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let stores: Vec<Arc<dyn TaskStore>> = join_all((0..3).map(|_| replica_set.open("groups")))
        .await
        .into_iter()
        .map(|store| Arc::new(store) as Arc<dyn TaskStore>)
        .collect();
    let mut events = stores[2].subscribe();
    let tasks: Vec<_> = (0..TASKS).map(|_| group_task("sweep")).collect();
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    stores[0].add(tasks).await.unwrap();

    // All of them change the same tasks: each cancels the last ones while the executors run tasks.
    let mut running = JoinSet::new();
    for index in 0..EXECUTORS {
        let executor = FakeExecutor::new(&stores[index % 3], &format!("e{index}"));
        running.spawn(run_tasks(executor));
    }
    for store in &stores {
        let (store, ids) = (store.clone(), ids[TASKS / 2..].to_vec());
        running.spawn(async move {
            store.cancel_many(ids).await.unwrap();
        });
    }
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, done) = (stores[1].clone(), done.clone());
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let state = store.group(key("sweep")).await.unwrap().unwrap();
                assert_eq!(state.total(), TASKS as u64, "{state:?}");
            }
        })
    };
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    reader.await.unwrap();

    let state = stores[1].group(key("sweep")).await.unwrap().unwrap();
    let listed = listed_tasks(&*stores[0], "sweep").await;
    let (counts, reasons) = count(&listed);
    assert_eq!((&state.counts, &state.reasons), (&counts, &reasons));
    assert!(state.is_done() && counts[&TaskStatus::RunFailed] > 0, "{state:?}");
    while events.recv().await.unwrap() != ChangeEvent::GroupChanged(key("sweep")) {}

    let stripes = replica_set
        .client()
        .database("groups")
        .collection::<Document>("groups");
    let stripes = stripes.count_documents(doc! {}).await.unwrap();
    assert!((2..=MAX_STRIPES).contains(&stripes), "{stripes} documents");

    // Two callers retry the same task: it leaves the counters once.
    let failed = listed
        .iter()
        .find(|task| task.status == TaskStatus::RunFailed)
        .unwrap()
        .id;
    let retry = || {
        let mut task = group_task("sweep");
        task.spec.retry_of = Some(failed);
        vec![task]
    };
    let (first, second) = tokio::join!(stores[0].add(retry()), stores[1].add(retry()));
    first.and(second).unwrap();
    let state = stores[1].group(key("sweep")).await.unwrap().unwrap();
    assert_eq!(state.total(), TASKS as u64 + 1);
    let (counts, reasons) = count(&listed_tasks(&*stores[0], "sweep").await);
    assert_eq!((state.counts, state.reasons), (counts, reasons));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_without_tasks_leaves_no_documents() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let groups = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("groups");
    for name in ["a", "b"] {
        add_task_with(&*store, |spec| spec.group = Some(GroupName::new(name).unwrap())).await;
    }
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    store.apply_retention(END_OF_TIME, END_OF_TIME, 10).await.unwrap();
    let all = || GroupQuery {
        limit: 10,
        ..GroupQuery::default()
    };
    let left = store.groups(all()).await.unwrap().groups;
    assert_eq!(
        left.iter().map(|state| &state.key).collect::<Vec<_>>(),
        [&key("b")]
    );
    assert_eq!(
        groups.count_documents(doc! { "_id.group": "a" }).await.unwrap(),
        0
    );

    // A process that ended just after it removed the last task of a group left these. A later round finds them.
    let stripe = |stripe: i64, count: i64| {
        let id = doc! { "user": "ada", "group": "left", "stripe": stripe };
        doc! { "_id": id, "revision": 1_i64, "tally": { "success": count }, "add_time": 1_i64 }
    };
    groups.insert_many([stripe(0, 1), stripe(9, -1)]).await.unwrap();
    assert_eq!(store.group(key("left")).await.unwrap(), None);
    assert_eq!(store.groups(all()).await.unwrap().groups.len(), 1);
    store.apply_retention(END_OF_TIME, END_OF_TIME, 10).await.unwrap();
    assert_eq!(
        groups
            .count_documents(doc! { "_id.group": "left" })
            .await
            .unwrap(),
        0
    );
    assert_eq!(store.group(key("b")).await.unwrap().unwrap().total(), 1);
}

/// The group gets a task again, in a document with the same id and revision, while a late delete is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_of_an_empty_group_spares_its_successor() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("conclave").await;
    let groups = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("groups");
    let stripe = |tally: Document| {
        let id = doc! { "user": "ada", "group": "g", "stripe": 0_i64 };
        doc! { "_id": id, "revision": 1_i64, "created_as": ObjectId::new(), "add_time": 1_i64, "tally": tally }
    };
    groups.insert_one(stripe(doc! {})).await.unwrap();
    let admin = replica_set.client().database("admin");
    let block = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": 1 },
        "data": {
            "failCommands": ["delete"],
            "blockConnection": true,
            "blockTimeMS": 1000,
            "appName": "conclave",
            "namespace": "conclave.groups",
        },
    };
    let before = admin.run_command(block).await.unwrap();
    let is_blocked = doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": times_entered(&before) + 1,
        "maxTimeMS": 60_000,
    };
    let retention = store.apply_retention(StoreAge(i64::MIN), StoreAge(i64::MIN), 10);
    let recreate = async {
        admin.run_command(is_blocked).await.unwrap();
        groups.delete_many(doc! {}).await.unwrap();
        groups
            .insert_one(stripe(doc! { "pending": 1_i64 }))
            .await
            .unwrap();
    };
    let (removed, ()) = tokio::join!(retention, recreate);
    removed.unwrap();
    let found = store.group(key("g")).await.unwrap();
    assert_eq!(found.map(|group| group.total()), Some(1));
}
