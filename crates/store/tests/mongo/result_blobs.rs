//! Results that name blobs, while retention removes blobs that no task uses.

use std::sync::Arc;
use std::time::Duration;

use model::{BlobHash, CapturedOutput, StoreAge, TaskResult, TaskStatus};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use store::TaskStore;
use store::contract::fake_executor::{FakeExecutor, instructions};
use store::contract::fixtures::{add_task, put_blob, read_blob, success, task_status};

use super::replica_set::{TestAuthentication, TestReplicaSet};

const ROUNDS: u32 = 40;
const NO_TASK: StoreAge = StoreAge(i64::MIN);
const END_OF_TIME: StoreAge = StoreAge(i64::MAX);

fn result_with(blob: BlobHash) -> TaskResult {
    let mut result = success();
    if let Some(outcome) = &mut result.execute {
        outcome.stdout = CapturedOutput {
            blob: Some(blob),
            size: 1 << 20,
            ..outcome.stdout.clone()
        };
    }
    result
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_result_is_committed_with_a_blob_that_retention_removes() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    // Another judicator, which leads.
    let leader: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let blobs = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("blobs");
    let mut executor = FakeExecutor::new(&store, "e");
    let (mut committed, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let content = format!("output of round {round}").into_bytes();
        let hash = put_blob(&*store, &content).await.unwrap();
        let id = add_task(&*store).await;
        let attempt_id = executor.claim_one().await;
        let retention = async |delay: Duration| {
            tokio::time::sleep(delay).await;
            leader.apply_retention(NO_TASK, END_OF_TIME, 10).await.unwrap();
        };
        let finish = executor.finish(attempt_id, result_with(hash));
        // Before the report, after it, or at another point of the report in each round.
        let answer = match round % 8 {
            0 => {
                retention(Duration::ZERO).await;
                finish.await
            }
            1 => {
                let answer = finish.await;
                retention(Duration::ZERO).await;
                answer
            }
            other => {
                let delay = Duration::from_micros(u64::from(other - 2) * 500);
                tokio::join!(finish, retention(delay)).0
            }
        };
        let mut answer = instructions(answer);
        if answer.upload_again == [attempt_id] {
            refused += 1;
            assert!(answer.delete.is_empty());
            assert_eq!(task_status(&*store, id).await, TaskStatus::Pending);
            put_blob(&*store, &content).await.unwrap();
            answer = instructions(executor.finish(attempt_id, result_with(hash)).await);
        } else {
            committed += 1;
        }
        assert_eq!(answer.delete, [attempt_id]);
        assert_eq!(task_status(&*store, id).await, TaskStatus::Success);
        leader.apply_retention(NO_TASK, END_OF_TIME, 10).await.unwrap();
        assert_eq!(read_blob(&*store, hash).await, Some(content), "round {round}");
        let id = Binary {
            subtype: BinarySubtype::Generic,
            bytes: hash.0.to_vec(),
        };
        let document = blobs.find_one(doc! { "_id": id }).await.unwrap().unwrap();
        assert_eq!(document.get_i64("refs").unwrap(), 1);
    }
    assert!(
        committed > 0 && refused > 0,
        "{committed} committed, {refused} refused"
    );
    // With their tasks, the blobs go too.
    let removed = leader
        .apply_retention(END_OF_TIME, END_OF_TIME, 1000)
        .await
        .unwrap();
    assert_eq!((removed.tasks, removed.blobs), (ROUNDS as usize, ROUNDS as usize));
}
