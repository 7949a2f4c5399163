//! Tasks that need a language or a root: what the server examines for a claim, and judicators of earlier versions.

use std::sync::Arc;

use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{new_task, requiring, task_spec, tools};

use super::replica_set::{TestAuthentication, TestReplicaSet};

/// How many index keys and documents the reads of tasks examined since the profiler was started, at most in one read.
async fn most_examined(database: &mongodb::Database) -> (i64, i64, Vec<String>) {
    let reads = doc! { "ns": format!("{}.tasks", database.name()), "op": { "$in": ["query", "command"] } };
    let profile = database.collection::<Document>("system.profile");
    let reads: Vec<Document> = profile.find(reads).await.unwrap().try_collect().await.unwrap();
    assert!(!reads.is_empty(), "the profiler has recorded nothing");
    let number = |read: &Document, field: &str| match read.get(field) {
        Some(number) => number.as_i64().or(number.as_i32().map(i64::from)).unwrap(),
        None => 0,
    };
    let most = |field: &str| reads.iter().map(|read| number(read, field)).max().unwrap();
    assert!(
        !reads
            .iter()
            .any(|read| read.get_bool("hasSortStage").unwrap_or(false)),
        "a read sorts what it has read"
    );
    let plans = reads
        .iter()
        .filter_map(|read| Some(read.get_str("planSummary").ok()?.to_string()));
    (most("keysExamined"), most("docsExamined"), plans.collect())
}

/// A quarter of the tasks waits for a language that no executor has, and each of the others for a root of its own: the task
/// itself, its steps, or the program that judges it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_does_not_examine_tasks_of_other_requirements() {
    const UNCLAIMABLE: usize = 4000;
    const CLAIMED: u32 = 5;
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("queue").await);
    let tasks = (0..UNCLAIMABLE).map(|number| {
        new_task(match number % 4 {
            0 => requiring("/cobol"),
            1 => requiring(&format!("root-{number}/")),
            2 => requiring(&format!("+/c root-{number}/")),
            _ => requiring(&format!("+root-{number}/ /c")),
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for batch in tasks.chunks(1000) {
        store.add(batch.to_vec()).await.unwrap();
    }
    let claimable = (0..200).map(|number| match number % 4 {
        0 => new_task(task_spec()),
        1 => new_task(requiring("/c")),
        2 => new_task(requiring("lab/c")),
        _ => new_task(requiring("+/c lab/c")),
    });
    store.add(claimable.collect()).await.unwrap();
    // More languages than one read names.
    let languages: Vec<_> = (0..250).map(|number| format!("/language-{number}")).collect();
    let keys: Vec<_> = languages
        .iter()
        .map(String::as_str)
        .chain(["/c", "lab/c"])
        .collect();
    let mut executor = FakeExecutor::new(&store, "e");
    executor.tools = Some(tools(&keys));
    executor.claim(0).await;
    let database = replica_set.client().database("queue");
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    for _ in 0..3 {
        assert_eq!(executor.claim(CLAIMED).await.len(), CLAIMED as usize);
    }
    database.run_command(doc! { "profile": 0 }).await.unwrap();
    let (keys_examined, documents_examined, plans) = most_examined(&database).await;
    // A key of the index for each of the executor's keys, and for each task.
    let most = i64::from(CLAIMED) + 3;
    assert!(documents_examined <= 2 * most, "{documents_examined}");
    assert!(keys_examined <= 100 * 2 + 2 * most, "{keys_examined}");
    // The reads of each claim do not depend on the number of pairs that nobody can claim.
    assert!(plans.len() <= 3 * 12, "{plans:?}");
    let merged = plans.iter().any(|plan| plan.contains("waits_for"));
    assert!(merged, "{plans:?}");
}

/// A judicator of an earlier version does not know `waits_for`. When it releases a task with a requirement, the task gets
/// into the queue of all executors, from which this version moves it to its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_an_earlier_version_released_keeps_its_requirement() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("released").await);
    const RELEASED: usize = 20;
    let needs_tools: Vec<_> = (0..RELEASED).map(|_| new_task(requiring("/c"))).collect();
    store.add(needs_tools.clone()).await.unwrap();
    let any = new_task(task_spec());
    store.add(vec![any.clone()]).await.unwrap();
    let tasks = replica_set
        .client()
        .database("released")
        .collection::<Document>("tasks");
    let released = doc! { "$set": { "waits": true, "status": "retrying" }, "$unset": { "waits_for": "" } };
    let moved = tasks.update_many(doc! { "needs": "/c" }, released).await.unwrap();
    assert_eq!(moved.modified_count, RELEASED as u64);
    // One is cancelled by this version, and the first one by the earlier version, which leaves its mark too.
    let mut needs_tools = needs_tools;
    store.cancel(needs_tools.remove(7).id).await.unwrap();
    let first = tasks
        .find_one(doc! { "waits": true, "needs": "/c" })
        .sort(doc! { "add_time": 1 });
    let first = first.await.unwrap().unwrap();
    let ended = doc! { "$set": { "status": "cancelled", "finish_time": 5_i64 } };
    let ended = tasks.update_one(doc! { "_id": first.get("_id").cloned() }, ended);
    assert_eq!(ended.await.unwrap().modified_count, 1);
    needs_tools.remove(0);
    // They are not in the way of other tasks.
    let mut unable = FakeExecutor::new(&store, "unable");
    assert_eq!(unable.claim_one().await.task, any.id);
    assert_eq!(unable.claim(9).await, []);
    let mut able = FakeExecutor::new(&store, "able");
    able.tools = Some(tools(&["/c"]));
    for needs_tools in needs_tools {
        assert_eq!(able.claim_one().await.task, needs_tools.id);
    }
    let queued = doc! { "$or": [{ "waits": { "$exists": true } }, { "waits_for": { "$exists": true } }] };
    assert_eq!(
        tasks.count_documents(queued).await.unwrap(),
        0,
        "done tasks are in no queue"
    );
}

/// A judicator of an earlier version opens the executor's next session, and leaves the field `tools` as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_another_session_do_not_count() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("sessions").await);
    store.add(vec![new_task(requiring("/c"))]).await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    executor.tools = Some(tools(&["/c"]));
    executor.claim(0).await;
    let executors = replica_set
        .client()
        .database("sessions")
        .collection::<Document>("executors");
    let stored = executors.find_one(doc! {}).await.unwrap().unwrap();
    executor.expire().await;
    assert_eq!(executor.claim(0).await, []);
    let restored = doc! { "$set": { "tools": stored.get("tools").cloned() } };
    executors.update_one(doc! {}, restored).await.unwrap();
    assert_eq!(executor.claim(1).await, []);
    assert_eq!(store.executors().await.unwrap()[0].tools, tools(&[]));
}
