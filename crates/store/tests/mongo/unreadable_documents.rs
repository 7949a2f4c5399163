//! Unreadable documents, which no store writes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use model::{BlobHash, ExecutorName, TaskForm, TaskId, TaskStatus};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, Uuid, doc};
use mongodb::{Collection, Database};
use store::contract::fixtures::{add_task, new_task, put_blob, task_spec, task_with_blobs};
use store::contract::unreadable_rows::{self, BlobRowDamage, ExecutorRowDamage, RawDatabase, TaskRowDamage};
use store::mongo::MongoStore;
use store::{StoreError, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet};

/// A MongoDB store under test, and direct access to its documents, so that contract tests can damage them.
pub(crate) struct MongoRawDatabase {
    database: Database,
    pub(crate) tasks: Collection<Document>,
    pub(crate) store: Arc<MongoStore>,
}

impl MongoRawDatabase {
    async fn open(replica_set: &TestReplicaSet) -> MongoRawDatabase {
        MongoRawDatabase::open_named(replica_set, "damaged").await
    }

    pub(crate) async fn open_named(replica_set: &TestReplicaSet, name: &str) -> MongoRawDatabase {
        let database = replica_set.client().database(name);
        MongoRawDatabase {
            tasks: database.collection("tasks"),
            database,
            store: Arc::new(replica_set.open(name).await),
        }
    }

    /// Changes one document directly.
    async fn change(&self, collection: &str, condition: Document, change: Document) {
        let collection = self.database.collection::<Document>(collection);
        let updated = collection.update_one(condition, change).await.unwrap();
        assert_eq!(updated.modified_count, 1);
    }
}

pub(crate) fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

#[async_trait]
impl RawDatabase for MongoRawDatabase {
    async fn damage(&self, id: TaskId, damage: TaskRowDamage) {
        let filter = doc! { "_id": Uuid::from_bytes(id.0.into_bytes()) };
        let damage = match damage {
            TaskRowDamage::Status => doc! { "status": "bogus" },
            TaskRowDamage::User => doc! { "user": "" },
            TaskRowDamage::Executor => doc! { "executor": "a b" },
            TaskRowDamage::Session => doc! { "session": binary(&[1, 2, 3]) },
            TaskRowDamage::Attempt => doc! { "attempt": -1_i64 },
            // A known version, and nothing that can be decoded.
            TaskRowDamage::Spec => doc! { "spec.bytes": binary(&[1, 0xff]) },
            TaskRowDamage::DoneInQueue => doc! { "status": "success" },
            TaskRowDamage::HeldInQueue => doc! { "executor": "nobody" },
            TaskRowDamage::MaxLosses => doc! { "lost": i64::from(u32::MAX) },
            // An id cannot be changed, so another document replaces this one.
            TaskRowDamage::Id => {
                let mut other = self.tasks.find_one_and_delete(filter).await.unwrap().unwrap();
                other.insert("_id", "no id");
                self.tasks.insert_one(other).await.unwrap();
                return;
            }
        };
        self.change("tasks", filter, doc! { "$set": damage }).await;
    }

    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorRowDamage) {
        let damage = match damage {
            ExecutorRowDamage::Session => doc! { "session": "none" },
            ExecutorRowDamage::Seq => doc! { "seq": -1_i64 },
            ExecutorRowDamage::Tools => doc! { "tools.encoded": binary(&[1, 0xff]) },
            ExecutorRowDamage::Host => doc! { "host": 7 },
        };
        self.change(
            "executors",
            doc! { "_id": name.as_str() },
            doc! { "$set": damage },
        )
        .await;
    }

    async fn damage_blob(&self, hash: BlobHash, damage: BlobRowDamage) {
        let blobs = self.database.collection::<Document>("blobs");
        let filter = doc! { "_id": binary(&hash.0) };
        let mut other = blobs.find_one_and_delete(filter).await.unwrap().unwrap();
        if damage == BlobRowDamage::Hash {
            other.insert("_id", binary(&hash.0[..3]));
            blobs.insert_one(other).await.unwrap();
        }
    }

    async fn set_form(&self, id: TaskId, form: TaskForm) {
        let filter = doc! { "_id": Uuid::from_bytes(id.0.into_bytes()) };
        let document = self.tasks.find_one(filter.clone()).await.unwrap().unwrap();
        let spec = document.get_document("spec").unwrap();
        let mut bytes = spec.get_binary_generic("bytes").unwrap().clone();
        bytes[0] = u8::try_from(form.0).unwrap();
        let mut change = doc! { "$set": { "spec.bytes": binary(&bytes) } };
        match form {
            TaskForm::UNRECORDED => drop(change.insert("$unset", doc! { "form": "" })),
            form => drop(
                change
                    .get_document_mut("$set")
                    .unwrap()
                    .insert("form", i64::from(form.0)),
            ),
        }
        self.tasks.update_one(filter, change).await.unwrap();
    }

    async fn count_tasks(&self) -> u64 {
        self.tasks.count_documents(doc! {}).await.unwrap()
    }

    fn unreadable_rows(&self) -> usize {
        self.store.unreadable_rows()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_documents_are_skipped_and_everything_else_works() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::unreadable_rows_are_skipped(database.store.clone(), &database).await;
    // A judicator can start with such documents.
    replica_set.open("damaged").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_and_held_tasks_in_the_queue_are_skipped() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::inconsistent_tasks_in_the_queue_are_skipped(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_executor_is_expired() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::an_unreadable_executor_is_expired(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_tools_count_as_none() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::unreadable_tools_count_as_none(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_blob_does_not_stop_retention() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::an_unreadable_blob_does_not_stop_retention(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_with_the_largest_loss_count_ends() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    unreadable_rows::the_loss_counter_does_not_overflow(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_not_a_number_is_left_out_of_the_totals() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    let store = &database.store;
    add_task(&**store).await;
    let ledger = database.database.collection::<Document>("ledger");
    ledger
        .insert_one(doc! { "_id": "damaged", "tally": { "pending": "many", "success": 2_i64 } })
        .await
        .unwrap();
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.counts[&TaskStatus::Pending], 1);
    assert_eq!(totals.counts[&TaskStatus::Success], 2);
    assert_eq!(store.unreadable_rows(), 1);
}

/// Calls that add at the same time share a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_document_fails_only_the_batch_that_names_it() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let database = MongoRawDatabase::open(&replica_set).await;
    let store = &database.store;
    let known = new_task(task_spec());
    store.add(vec![known.clone()]).await.unwrap();
    let filter = doc! { "_id": Uuid::from_bytes(known.id.0.into_bytes()) };
    database
        .change("tasks", filter, doc! { "$unset": { "digest": "" } })
        .await;
    let hash = put_blob(&**store, b"blob").await.unwrap();
    let filter = doc! { "_id": binary(&hash.0) };
    database
        .change("blobs", filter, doc! { "$set": { "size": "large" } })
        .await;
    for named in [known, task_with_blobs(&[hash])] {
        let good = (0..20).map(|_| store.add(vec![new_task(task_spec())]));
        let (bad, good) = tokio::join!(store.add(vec![named]), join_all(good));
        assert!(matches!(bad, Err(StoreError::Unreadable { .. })), "{bad:?}");
        for added in good {
            added.unwrap();
        }
    }
    assert_eq!(store.unreadable_rows(), 2);
    let put_again = put_blob(&**store, b"blob").await;
    assert!(
        matches!(put_again, Err(StoreError::Unreadable { .. })),
        "{put_again:?}"
    );
}
