//! Documents that no store has written.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use model::{BlobHash, ExecutorName, Status, TaskId};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, Uuid, doc};
use mongodb::{Collection, Database};
use store::contract::damaging::{self, BlobDamage, Damage, ExecutorDamage, Rows};
use store::contract::sample::{add_one, needing, new, put, spec};
use store::mongo::MongoStore;
use store::{StoreError, TaskStore};

use super::set::{Guard, Set};

struct Documents {
    database: Database,
    tasks: Collection<Document>,
    store: Arc<MongoStore>,
}

impl Documents {
    async fn open(set: &Set) -> Documents {
        let database = set.client().database("damaged");
        Documents {
            tasks: database.collection("tasks"),
            database,
            store: Arc::new(set.open("damaged").await),
        }
    }

    /// Changes one document, past the store.
    async fn change(&self, collection: &str, condition: Document, change: Document) {
        let collection = self.database.collection::<Document>(collection);
        let updated = collection.update_one(condition, change).await.unwrap();
        assert_eq!(updated.modified_count, 1);
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

#[async_trait]
impl Rows for Documents {
    async fn damage(&self, id: TaskId, damage: Damage) {
        let this = doc! { "_id": Uuid::from_bytes(id.0.into_bytes()) };
        let damage = match damage {
            Damage::Status => doc! { "status": "bogus" },
            Damage::User => doc! { "user": "" },
            Damage::Executor => doc! { "executor": "a b" },
            Damage::Session => doc! { "session": binary(&[1, 2, 3]) },
            Damage::Attempt => doc! { "attempt": -1_i64 },
            Damage::Spec => doc! { "spec.bytes": binary(&[0xff]) },
            Damage::DoneInQueue => doc! { "status": "success" },
            Damage::HeldInQueue => doc! { "executor": "nobody" },
            Damage::Lost => doc! { "lost": i64::from(u32::MAX) },
            // An id never changes: another document takes the place of this one.
            Damage::Id => {
                let mut other = self.tasks.find_one_and_delete(this).await.unwrap().unwrap();
                other.insert("_id", "no id");
                self.tasks.insert_one(other).await.unwrap();
                return;
            }
        };
        self.change("tasks", this, doc! { "$set": damage }).await;
    }

    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorDamage) {
        let damage = match damage {
            ExecutorDamage::Session => doc! { "session": "none" },
            ExecutorDamage::Seq => doc! { "seq": -1_i64 },
            ExecutorDamage::Host => doc! { "host": 7 },
        };
        self.change(
            "executors",
            doc! { "_id": name.as_str() },
            doc! { "$set": damage },
        )
        .await;
    }

    async fn damage_blob(&self, hash: BlobHash, damage: BlobDamage) {
        let blobs = self.database.collection::<Document>("blobs");
        let this = doc! { "_id": binary(&hash.0) };
        let mut other = blobs.find_one_and_delete(this).await.unwrap().unwrap();
        if damage == BlobDamage::Hash {
            other.insert("_id", binary(&hash.0[..3]));
            blobs.insert_one(other).await.unwrap();
        }
    }

    async fn count(&self) -> u64 {
        self.tasks.count_documents(doc! {}).await.unwrap()
    }

    fn noted(&self) -> usize {
        self.store.unreadable_rows()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_cannot_be_read_are_set_aside_and_everything_else_goes_on() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    damaging::everything_else_goes_on(documents.store.clone(), &documents).await;
    // A judicator that starts finds the same, and starts.
    set.open("damaged").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_in_the_queue_that_do_not_wait_are_passed_over() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    damaging::tasks_that_do_not_wait_are_passed_over(documents.store.clone(), &documents).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_cannot_be_read_is_expired() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    damaging::an_unreadable_executor_is_expired(documents.store.clone(), &documents).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_cannot_be_read_does_not_stop_retention() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    damaging::an_unreadable_blob_does_not_stop_retention(documents.store.clone(), &documents).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_are_counted_to_an_end() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    damaging::losses_are_counted_to_an_end(documents.store.clone(), &documents).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_that_is_no_number_is_left_out_of_the_totals() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    let store = &documents.store;
    add_one(&**store).await;
    let ledger = documents.database.collection::<Document>("ledger");
    ledger
        .insert_one(doc! { "_id": "damaged", "tally": { "pending": "many", "success": 2_i64 } })
        .await
        .unwrap();
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.counts[&Status::Pending], 1);
    assert_eq!(totals.counts[&Status::Success], 2);
    assert_eq!(store.unreadable_rows(), 1);
}

/// Those who add at the same time share a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_document_refuses_only_the_batch_that_names_it() {
    let set = Set::start(1, Guard::Open).await;
    let documents = Documents::open(&set).await;
    let store = &documents.store;
    let known = new(spec());
    store.add(vec![known.clone()]).await.unwrap();
    let this = doc! { "_id": Uuid::from_bytes(known.id.0.into_bytes()) };
    documents
        .change("tasks", this, doc! { "$unset": { "digest": "" } })
        .await;
    let hash = put(&**store, b"blob").await.unwrap();
    let this = doc! { "_id": binary(&hash.0) };
    documents
        .change("blobs", this, doc! { "$set": { "size": "large" } })
        .await;
    for named in [known, needing(&[hash])] {
        let good = (0..20).map(|_| store.add(vec![new(spec())]));
        let (bad, good) = tokio::join!(store.add(vec![named]), join_all(good));
        assert!(matches!(bad, Err(StoreError::Unreadable { .. })), "{bad:?}");
        for added in good {
            added.unwrap();
        }
    }
    assert_eq!(store.unreadable_rows(), 2);
    let put_again = put(&**store, b"blob").await;
    assert!(
        matches!(put_again, Err(StoreError::Unreadable { .. })),
        "{put_again:?}"
    );
}
