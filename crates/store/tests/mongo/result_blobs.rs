//! Results that name blobs, while retention removes blobs that no task uses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{BlobHash, CapturedOutput, StoreAge, TaskResult, TaskStatus};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};
use store::TaskStore;
use store::contract::fake_executor::{FakeExecutor, instructions};
use store::contract::fixtures::{
    add_done_tasks_with_50_blobs, add_task, new_task, put_blob, read_blob, success, task_spec, task_status,
    task_with_blobs,
};
use tokio::task::JoinSet;

use super::change_stream::times_entered;
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

/// A counter of the server about transactions.
async fn transaction_counter(replica_set: &TestReplicaSet, name: &str) -> i64 {
    let status = replica_set.client().database("admin");
    let status = status.run_command(doc! { "serverStatus": 1 }).await.unwrap();
    status
        .get_document("transactions")
        .unwrap()
        .get_i64(name)
        .unwrap()
}

/// Many results have the same content, for example an empty file or the same output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_name_the_same_blob_do_not_conflict() {
    const EXECUTORS: usize = 8;
    const REPORTS: usize = 10;
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let shared = put_blob(&*store, b"shared").await.unwrap();
    let tasks = (0..EXECUTORS * REPORTS).map(|_| new_task(task_spec()));
    store.add(tasks.collect()).await.unwrap();
    let mut executors = vec![];
    for index in 0..EXECUTORS {
        let mut executor = FakeExecutor::new(&store, &format!("e{index}"));
        let assigned = executor.claim(REPORTS as u32).await;
        executors.push((executor, assigned));
    }
    let aborted_before = transaction_counter(&replica_set, "totalAborted").await;
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (mut executor, assigned) in executors {
        let store = store.clone();
        running.spawn(async move {
            let mut slowest = Duration::ZERO;
            for assignment in assigned {
                let begun = Instant::now();
                assert_eq!(store.has_blobs(vec![shared]).await.unwrap(), [Some(6)]);
                let answer = executor.finish(assignment.attempt_id, result_with(shared)).await;
                assert_eq!(instructions(answer).delete, [assignment.attempt_id]);
                slowest = slowest.max(begun.elapsed());
            }
            slowest
        });
    }
    let slowest = running.join_all().await.into_iter().max();
    let aborted = transaction_counter(&replica_set, "totalAborted").await - aborted_before;
    println!(
        "{} results in {:?}, slowest {slowest:?}, {aborted} transactions aborted",
        EXECUTORS * REPORTS,
        started.elapsed(),
    );
    assert_eq!(aborted, 0);
}

/// A transaction with hundreds of thousands of references would exceed its time limit, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transaction_of_retention_removes_a_bounded_number_of_references() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("conclave").await;
    add_done_tasks_with_50_blobs(&store, 120).await;
    let committed = async || transaction_counter(&replica_set, "totalCommitted").await;
    let before = committed().await;
    let removed = store.apply_retention(END_OF_TIME, NO_TASK, 1000).await.unwrap();
    assert_eq!((removed.tasks, removed.more), (120, false));
    assert_eq!(committed().await - before, 2);
}

/// Blocks the next commit of a transaction for a while. Returns the command that waits until it is blocked.
async fn block_next_commit(replica_set: &TestReplicaSet) -> Document {
    let block = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": 1 },
        "data": {
            "failCommands": ["commitTransaction"],
            "blockConnection": true,
            "blockTimeMS": 1000,
            "appName": "conclave",
        },
    };
    let before = replica_set.client().database("admin").run_command(block).await;
    doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": times_entered(&before.unwrap()) + 1,
        "maxTimeMS": 60_000,
    }
}

/// The transaction has read that the blob exists, and commits after retention has begun to look for tasks that name it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_waits_for_transactions_that_refer_to_blobs() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let leader = replica_set.open("conclave").await;
    let admin = replica_set.client().database("admin");
    let (input, output) = (
        put_blob(&*store, b"input").await.unwrap(),
        put_blob(&*store, b"output").await.unwrap(),
    );
    let is_blocked = block_next_commit(&replica_set).await;
    let retention = async {
        admin.run_command(is_blocked).await.unwrap();
        // The other blob is unused, and is put again.
        leader.apply_retention(NO_TASK, END_OF_TIME, 10).await.unwrap();
    };
    let (added, ()) = tokio::join!(store.add(vec![task_with_blobs(&[input])]), retention);
    added.unwrap();
    assert_eq!(
        store.has_blobs(vec![input, output]).await.unwrap(),
        [Some(5), None]
    );

    put_blob(&*store, b"output").await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    let is_blocked = block_next_commit(&replica_set).await;
    let retention = async {
        admin.run_command(is_blocked).await.unwrap();
        leader.apply_retention(NO_TASK, END_OF_TIME, 10).await.unwrap();
    };
    let (answer, ()) = tokio::join!(executor.finish(attempt_id, result_with(output)), retention);
    assert_eq!(instructions(answer).delete, [attempt_id]);
    assert_eq!(
        store.has_blobs(vec![input, output]).await.unwrap(),
        [Some(5), Some(6)]
    );
}
