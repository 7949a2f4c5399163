//! Documents that no store has written.

use std::sync::Arc;

use async_trait::async_trait;
use model::TaskId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, Uuid, doc};
use mongodb::{Collection, Database};
use store::contract::damaging::{self, Damage, Rows};
use store::mongo::MongoStore;

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
