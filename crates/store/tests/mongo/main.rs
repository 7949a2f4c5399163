//! The MongoDB store under the contract that every store keeps, and what is its own to promise; on real replica
//! sets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aging;
mod alternating;
mod blobs;
mod changes;
mod content;
mod damage;
mod failover;
mod opening;
mod priority;
mod searching;
mod set;
mod sharing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::{StreamExt, stream};
use store::TaskStore;

use self::alternating::Alternating;
use self::set::{Guard, Set};

/// How many cases run at the same time.
const AT_ONCE: usize = 8;

/// Each on an empty database of one set: to start a set for each would take minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_is_kept() {
    let set = Arc::new(Set::start(1, Guard::Open).await);
    let failed: Vec<_> = stream::iter(store::cases_of_the_contract!())
        .map(|case| {
            let set = set.clone();
            async move {
                let database = case.name.replace("::", "-");
                let ran = tokio::spawn(async move {
                    let store = Arc::new(set.open(&format!("{database:.60}")).await);
                    (case.run)(store).await;
                });
                ran.await.is_err().then_some(case.name)
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "these cases failed: {failed:?}");
}

/// Once with a store alone, and once with two that take turns, as two judicators on one set.
#[test]
fn random_interleavings_keep_every_promise() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let set = runtime.block_on(Set::start(1, Guard::Open));
    let count = AtomicU32::new(0);
    let database = || format!("history-{}", count.fetch_add(1, Ordering::Relaxed));
    store::contract::interleaving::run(10, || async {
        ((), Arc::new(set.open(&database()).await) as Arc<dyn TaskStore>)
    });
    store::contract::interleaving::run(10, || async {
        let database = database();
        let stores = [set.open(&database).await, set.open(&database).await];
        ((), Arc::new(Alternating::new(stores)) as Arc<dyn TaskStore>)
    });
}
