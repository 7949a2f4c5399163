//! A database that the release with schema version 2 wrote: this one opens it and continues with every task in it.
//!
//! `data/version_2_database.json` has all documents and indexes of such a database, in MongoDB's extended JSON. A cluster
//! of that release wrote them: it ran the first three tasks, the fourth was cancelled, and the fifth is pending.

use std::sync::Arc;

use model::{
    GroupQuery, OutcomeReason, RecordedEnd, StepCommand, StoreAge, Task, TaskForm, TaskId, TaskQuery,
    TaskStatus,
};
use mongodb::Database;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Bson, Document, doc};
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{get_task, hash_of, new_task, read_blob, success};
use store::{RetentionSummary, StoreError, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet};

const DATABASE: &str = include_str!("data/version_2_database.json");
const BLOB: &[u8] = b"blob of the earlier release\n";
const END_OF_TIME: StoreAge = StoreAge(i64::MAX);

fn task_id(number: u128) -> TaskId {
    TaskId(uuid::Uuid::from_u128((0x0190_a000_0000_7000_8000 << 48) + number))
}

async fn restore(database: &Database) {
    let dump: Document = serde_json::from_str(DATABASE).unwrap();
    for (name, content) in dump {
        let content = content.as_document().unwrap();
        let list = |field: &str| content.get_array(field).unwrap().clone();
        database.create_collection(&name).await.unwrap();
        let indexes = list("indexes");
        if !indexes.is_empty() {
            let command = doc! { "createIndexes": &name, "indexes": indexes };
            database.run_command(command).await.unwrap();
        }
        let documents = list("documents").into_iter().map(|document| match document {
            Bson::Document(document) => document,
            other => panic!("{other} is no document"),
        });
        let documents: Vec<_> = documents.collect();
        if !documents.is_empty() {
            let collection = database.collection::<Document>(&name);
            collection.insert_many(documents).await.unwrap();
        }
    }
}

async fn stored_document(database: &Database, id: TaskId) -> Document {
    let tasks = database.collection::<Document>("tasks");
    let id = mongodb::bson::Binary {
        subtype: BinarySubtype::Uuid,
        bytes: id.0.as_bytes().to_vec(),
    };
    tasks.find_one(doc! { "_id": id }).await.unwrap().unwrap()
}

fn check_finished(task: &Task, reason: OutcomeReason, exit_code: i32, stdout: &[u8]) {
    let result = task.result.as_ref().unwrap();
    let outcome = result.last_outcome().unwrap();
    assert_eq!((outcome.reason, outcome.exit_code), (reason, Some(exit_code)));
    assert_eq!(outcome.stdout.head, stdout);
    assert_eq!(
        (outcome.stdout.size, outcome.stdout.blob),
        (stdout.len() as u64, None)
    );
    assert_eq!((result.files.len(), result.files_left_out.count), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_version_2_is_opened_with_all_of_its_tasks() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = replica_set.client().database("conclave");
    restore(&database).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let meta = database.collection::<Document>("meta");
    let schema = meta.find_one(doc! { "_id": "schema" }).await.unwrap().unwrap();
    assert!(schema.get_i64("version").unwrap() >= 3, "{schema}");

    let query = TaskQuery {
        limit: 10,
        ..TaskQuery::default()
    };
    let listed = store.search(query).await.unwrap().tasks;
    let statuses: Vec<_> = listed.iter().map(|task| (task.id, task.status)).collect();
    let expected = [
        (task_id(5), TaskStatus::Pending),
        (task_id(4), TaskStatus::Cancelled),
        (task_id(3), TaskStatus::CompileFailed),
        (task_id(2), TaskStatus::RunFailed),
        (task_id(1), TaskStatus::Success),
    ];
    assert_eq!(statuses, expected);
    let reasons: Vec<_> = listed.iter().map(|task| task.reason).collect();
    let exited = Some(OutcomeReason::Exited);
    assert_eq!(reasons, [None, None, exited, exited, exited]);
    let totals = store.totals().await.unwrap();
    assert_eq!((totals.counts[&TaskStatus::Pending], totals.held), (1, 0));
    assert_eq!(
        store
            .groups(GroupQuery {
                limit: 9,
                ..GroupQuery::default()
            })
            .await
            .unwrap()
            .groups,
        []
    );

    check_finished(
        &get_task(&*store, task_id(1)).await,
        OutcomeReason::Exited,
        0,
        BLOB,
    );
    // Its result is in a document of its own.
    let padded = format!("{:>3000}", "x");
    let second = get_task(&*store, task_id(2)).await;
    check_finished(&second, OutcomeReason::Exited, 3, padded.as_bytes());
    assert_eq!(second.ran_on, [], "that release did not record attempts");
    check_finished(
        &get_task(&*store, task_id(3)).await,
        OutcomeReason::Exited,
        1,
        b"",
    );
    assert_eq!(get_task(&*store, task_id(4)).await.result, None);
    assert_eq!(read_blob(&*store, hash_of(BLOB)).await.as_deref(), Some(BLOB));

    the_pending_task_is_recognised_and_runs(&store, &database).await;

    let removed = store
        .apply_retention(END_OF_TIME, END_OF_TIME, 100)
        .await
        .unwrap();
    assert_eq!(
        removed,
        RetentionSummary {
            tasks: 5,
            blobs: 1,
            more: false
        }
    );
}

async fn the_pending_task_is_recognised_and_runs(store: &Arc<dyn TaskStore>, database: &Database) {
    let id = task_id(5);
    let pending = get_task(&**store, id).await;
    assert_eq!(
        pending.spec.execute.command,
        StepCommand::Shell("cat data/in.txt".into())
    );
    let document = stored_document(database, id).await;
    let Some(Bson::Binary(digest)) = document.get("digest") else {
        panic!("{document} has no digest");
    };
    let mut again = new_task(pending.spec.clone());
    again.id = id;
    again.legacy_digest = Some(digest.bytes.as_slice().try_into().unwrap());
    assert!(store.add(vec![again.clone()]).await.unwrap()[0].existed);
    again.legacy_digest = Some([9; 32]);
    let refused = store.add(vec![again]).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");

    // Even an executor that knows only the forms of that release may run it.
    let mut executor = FakeExecutor::new(store, "w1");
    executor.newest_form = TaskForm::UNRECORDED;
    let assigned = executor.claim(5).await;
    assert_eq!(assigned.len(), 1);
    assert_eq!(
        (assigned[0].attempt_id.task, &assigned[0].spec),
        (id, &pending.spec)
    );
    executor.finish(assigned[0].attempt_id, success()).await;
    let done = get_task(&**store, id).await;
    assert_eq!((done.status, done.result), (TaskStatus::Success, Some(success())));
    let ran_on = done.ran_on.first().and_then(|attempt| attempt.end);
    assert_eq!(ran_on.map(|(_, end)| end), Some(RecordedEnd::Finished));
}
