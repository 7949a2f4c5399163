//! Tests of the MongoDB store on real replica sets: the contract of all stores, and what is specific to this one.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alternating_stores;
mod blobs;
mod change_stream;
mod concurrent_judicators;
mod failover;
mod groups;
mod large_content;
mod newer_forms;
mod open_store;
mod priority;
mod replica_set;
mod result_blobs;
mod search;
mod store_age;
mod tools;
mod unreadable_documents;
mod version_2;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::{StreamExt, stream};
use store::TaskStore;

use self::alternating_stores::AlternatingStores;
use self::replica_set::{TestAuthentication, TestReplicaSet};

/// How many cases of the contract run at the same time.
const CONCURRENT_CASES: usize = 8;

/// Each case has its own database in one replica set, because starting a replica set for each would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_every_contract_case() {
    let replica_set = Arc::new(TestReplicaSet::start(1, TestAuthentication::Disabled).await);
    let failed: Vec<_> = stream::iter(store::contract_cases!())
        .map(|case| {
            let replica_set = replica_set.clone();
            async move {
                let database = case.name.replace("::", "-");
                let ran = tokio::spawn(async move {
                    let store = Arc::new(replica_set.open(&format!("{database:.60}")).await);
                    (case.run)(store).await;
                });
                ran.await.is_err().then_some(case.name)
            }
        })
        .buffer_unordered(CONCURRENT_CASES)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "these cases failed: {failed:?}");
}

/// Runs once with a single store, and once with two stores that take turns, as two judicators on one database.
#[test]
fn random_interleavings_match_the_reference_model() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let replica_set = runtime.block_on(TestReplicaSet::start(1, TestAuthentication::Disabled));
    let count = AtomicU32::new(0);
    let database = || format!("history-{}", count.fetch_add(1, Ordering::Relaxed));
    store::contract::interleaving::run(10, || async {
        (
            (),
            Arc::new(replica_set.open(&database()).await) as Arc<dyn TaskStore>,
        )
    });
    store::contract::interleaving::run(10, || async {
        let database = database();
        let stores = [
            replica_set.open(&database).await,
            replica_set.open(&database).await,
        ];
        ((), Arc::new(AlternatingStores::new(stores)) as Arc<dyn TaskStore>)
    });
}
