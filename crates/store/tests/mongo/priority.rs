//! The order in which tasks are assigned while several judicators claim at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{new_task, task_spec};
use tokio::task::JoinSet;

use super::replica_set::{TestAuthentication, TestReplicaSet};

const ROUNDS: usize = 12;
const HIGH: usize = 12;
const LOW: usize = 48;
const JUDICATORS: usize = 3;
const EXECUTORS: usize = 12;

/// One claim of tasks in the MongoDB priority test, with its start and end on a shared logical clock.
struct TimedClaim {
    began: u64,
    ended: u64,
    priorities: Vec<i32>,
}

impl TimedClaim {
    fn has(&self, priority: i32) -> bool {
        self.priorities.contains(&priority)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn higher_priorities_are_assigned_first_under_contention() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let stores = join_all((0..JUDICATORS).map(|_| replica_set.open("order"))).await;
    let stores: Vec<_> = stores
        .into_iter()
        .map(|store| Arc::new(store) as Arc<dyn TaskStore>)
        .collect();
    for round in 0..ROUNDS {
        let task = |priority| {
            let mut spec = task_spec();
            spec.priority = priority;
            new_task(spec)
        };
        let low = (0..LOW).map(|_| task(0));
        stores[0]
            .add(low.chain((0..HIGH).map(|_| task(9))).collect())
            .await
            .unwrap();
        let claims = claim_all_tasks(&stores, round).await;
        let count = claims.iter().map(|claim| claim.priorities.len()).sum::<usize>();
        assert_eq!(count, HIGH + LOW);
        for low in claims.iter().filter(|claim| claim.has(0)) {
            let waited = claims.iter().find(|high| high.has(9) && high.began > low.ended);
            assert!(
                waited.is_none(),
                "round {round}: a claim got the priorities {:?} while one of priority 9 waited",
                low.priorities
            );
        }
    }
}

async fn claim_all_tasks(stores: &[Arc<dyn TaskStore>], round: usize) -> Vec<TimedClaim> {
    let clock = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for index in 0..EXECUTORS {
        let mut executor = FakeExecutor::new(&stores[index % JUDICATORS], &format!("e{index}-{round}"));
        let clock = clock.clone();
        running.spawn(async move {
            let now = || clock.fetch_add(1, Ordering::SeqCst);
            let mut claims = vec![];
            let mut empty_claims = 0;
            // A claim may be empty because of conflicts, so a single empty claim does not mean that the queue is empty.
            while empty_claims < 3 {
                let began = now();
                let assigned = executor.claim(2).await;
                let ended = now();
                empty_claims = if assigned.is_empty() { empty_claims + 1 } else { 0 };
                claims.push(TimedClaim {
                    began,
                    ended,
                    priorities: assigned.iter().map(|assigned| assigned.spec.priority).collect(),
                });
            }
            claims
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}
