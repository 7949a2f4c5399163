//! Tasks of a form that this program does not know, as a newer judicator on the same database writes them.

use std::sync::Arc;

use model::{
    AttemptEnd, CompletedAttempt, RecordedEnd, Report, ReportIntent, StoreAge, TaskForm, TaskId, TaskStatus,
};
use mongodb::bson::{Document, Uuid, doc};
use store::TaskStore;
use store::contract::MAX_ATTEMPTS;
use store::contract::fake_executor::{FakeExecutor, completed, instructions};
use store::contract::fixtures::{add_task, success, task_status};
use store::contract::forms;
use store::contract::unreadable_rows::RawDatabase;

use super::replica_set::{TestAuthentication, TestReplicaSet};
use super::unreadable_documents::{MongoRawDatabase, binary};

const NEWER: TaskForm = TaskForm(TaskForm::NEWEST.0 + 1);
const END_OF_TIME: StoreAge = StoreAge(i64::MAX);

fn by_id(id: TaskId) -> Document {
    doc! { "_id": Uuid::from_bytes(id.0.into_bytes()) }
}

async fn find(database: &MongoRawDatabase, id: TaskId) -> Document {
    database.tasks.find_one(by_id(id)).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_the_contract_cases_about_forms() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let open = |name| MongoRawDatabase::open_named(&replica_set, name);
    let database = open("claimed").await;
    forms::tasks_of_an_unknown_form_are_not_claimed(database.store.clone(), &database).await;
    let database = open("older").await;
    forms::older_executors_get_no_newer_tasks(database.store.clone(), &database).await;
    let database = open("ended").await;
    forms::tasks_of_an_unknown_form_are_not_ended(database.store.clone(), &database).await;
    let database = open("leaving").await;
    forms::a_leaving_executor_keeps_attempts_of_unknown_forms(database.store.clone(), &database).await;
    let database = open("earlier").await;
    forms::a_task_of_an_earlier_version_may_be_added_again(database.store.clone(), &database).await;
}

/// Older and newer judicators change the same documents during an upgrade.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_newer_versions_survive() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open_named(&replica_set, "conclave").await;
    let store: Arc<dyn TaskStore> = database.store.clone();
    let id = add_task(&*store).await;
    database.set_form(id, NEWER).await;
    let unknown = doc! { "field": [1, 2] };
    let change = doc! { "$set": { "unknown": &unknown } };
    database.tasks.update_one(by_id(id), change).await.unwrap();
    // A newer judicator hands it out, and this one expires the executor more often than a known task may be lost.
    for _ in 0..=MAX_ATTEMPTS {
        let mut executor = FakeExecutor::new(&store, "newer");
        executor.claim(0).await;
        let claim = doc! { "$set": {
            "executor": "newer",
            "session": Uuid::from_bytes(executor.session.0.into_bytes()),
            "status": "running",
        }, "$unset": { "waits": "" }, "$inc": { "attempt": 1_i64 } };
        database.tasks.update_one(by_id(id), claim).await.unwrap();
        assert_eq!(store.expire(executor.observed()).await.unwrap(), Some(1));
    }
    let released = find(&database, id).await;
    assert_eq!(released.get_str("status").unwrap(), "retrying");
    assert_eq!(released.get_document("unknown").unwrap(), &unknown);
    let ends = released.get_array("ran_on").unwrap().iter();
    let ends: Vec<_> = ends
        .map(|end| end.as_document().unwrap().get_str("end").unwrap())
        .collect();
    assert_eq!(ends, [RecordedEnd::Lost.as_str(); MAX_ATTEMPTS as usize + 1]);

    // Its result may refer to something that this program does not know, so retention leaves it to newer judicators.
    let done = doc! { "status": "success", "finish_time": 1_i64, "finish_age": 0_i64 };
    let done = doc! { "$set": done, "$unset": { "waits": "" } };
    database.tasks.update_one(by_id(id), done).await.unwrap();
    let removed = store.apply_retention(END_OF_TIME, END_OF_TIME, 10).await.unwrap();
    assert_eq!((removed.tasks, database.count_tasks().await), (0, 1));
    assert_eq!(database.unreadable_rows(), 0);
}

/// Only the spec says that the form is newer. The task is not ended, and not claimed again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_spec_is_newer_than_its_document_returns_to_the_queue() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open_named(&replica_set, "conclave").await;
    let store: Arc<dyn TaskStore> = database.store.clone();
    let id = add_task(&*store).await;
    let spec = binary(&[u8::try_from(NEWER.0).unwrap(), 0xff]);
    let change = doc! { "$set": { "spec.bytes": spec } };
    database.tasks.update_one(by_id(id), change).await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..3 {
        assert_eq!(executor.claim(1).await.len(), 0);
    }
    let document = find(&database, id).await;
    assert_eq!(document.get_i64("form").unwrap(), i64::from(NEWER.0));
    assert!(document.get_bool("waits").unwrap());
    assert_eq!(document.get_i64("attempt").unwrap(), 1);
    assert_eq!(store.newer_form(), Some(NEWER));
}

/// A newer version may store a task in a way that this one cannot parse. Nothing that belongs to it is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_only_newer_versions_can_parse_are_left_to_them() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open_named(&replica_set, "conclave").await;
    let store: Arc<dyn TaskStore> = database.store.clone();
    let (newer, known) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = FakeExecutor::new(&store, "e");
    let ids: Vec<_> = executor
        .claim(2)
        .await
        .iter()
        .map(|task| task.attempt_id)
        .collect();
    let checking = doc! { "$set": { "status": "checking", "form": i64::from(NEWER.0) } };
    database.tasks.update_one(by_id(newer), checking).await.unwrap();
    let held = find(&database, newer).await;

    // The attempt is neither killed nor forgotten.
    let answer = executor.report_status(known, TaskStatus::Running).await;
    assert_eq!(answer.delete, []);
    let executing = executor.running.clone();
    for form in [TaskForm::CURRENT, NEWER] {
        let complete = vec![CompletedAttempt {
            form,
            ..completed(ids[0], AttemptEnd::Result(success()))
        }];
        let report = Report {
            complete,
            executing: executing[1..].to_vec(),
            ..executor.next_report()
        };
        let answer = instructions(executor.send(report).await);
        assert_eq!((answer.delete, answer.upload_again), (vec![], vec![]));
    }

    // The other tasks of a silent executor are released. Its session stays for a newer leader, which ends it.
    let observed = executor.observed();
    assert_eq!(store.expire(observed.clone()).await.unwrap(), Some(1));
    assert_eq!(task_status(&*store, known).await, TaskStatus::Retrying);
    assert_eq!(store.expire(observed.clone()).await.unwrap(), None);
    assert_eq!(store.live_sessions().await.unwrap(), [observed]);
    // The same if it leaves.
    let report = Report {
        intent: ReportIntent::Leave,
        ..executor.next_report()
    };
    executor.send(report).await;
    assert_eq!(store.live_sessions().await.unwrap(), [executor.observed()]);
    // An executor whose session has ended is not removed while it holds the task.
    let executors = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("executors");
    let live = async |live: bool| {
        let set = doc! { "$set": { "live": live } };
        executors.update_one(doc! { "_id": "e" }, set).await.unwrap();
    };
    live(false).await;
    assert_eq!(store.remove_ended_executors(END_OF_TIME).await.unwrap(), 0);
    live(true).await;
    assert_eq!(find(&database, newer).await, held);
    assert_eq!(database.unreadable_rows(), 0);

    let running = doc! { "$set": { "status": "running", "form": i64::from(TaskForm::NEWEST.0) } };
    database.tasks.update_one(by_id(newer), running).await.unwrap();
    assert_eq!(store.expire(executor.observed()).await.unwrap(), Some(1));
    assert_eq!(task_status(&*store, newer).await, TaskStatus::Retrying);
    assert_eq!(store.live_sessions().await.unwrap(), []);
}
