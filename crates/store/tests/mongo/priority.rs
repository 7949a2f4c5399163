//! The order of hand-outs while several judicators claim at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use store::TaskStore;
use store::contract::sample::{new, spec};
use store::contract::worker::Worker;
use tokio::task::JoinSet;

use super::set::{Guard, Set};

const ROUNDS: usize = 12;
const HIGH: usize = 12;
const LOW: usize = 48;
const JUDICATORS: usize = 3;
const EXECUTORS: usize = 12;

/// One claim, from when it was asked for until it was answered, on a clock that all share.
struct Claim {
    began: u64,
    ended: u64,
    priorities: Vec<i32>,
}

impl Claim {
    fn has(&self, priority: i32) -> bool {
        self.priorities.contains(&priority)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_priority_is_handed_out_first_also_under_contention() {
    let set = Set::start(1, Guard::Open).await;
    let stores = join_all((0..JUDICATORS).map(|_| set.open("order"))).await;
    let stores: Vec<_> = stores
        .into_iter()
        .map(|store| Arc::new(store) as Arc<dyn TaskStore>)
        .collect();
    for round in 0..ROUNDS {
        let task = |priority| {
            let mut spec = spec();
            spec.priority = priority;
            new(spec)
        };
        let low = (0..LOW).map(|_| task(0));
        stores[0]
            .add(low.chain((0..HIGH).map(|_| task(9))).collect())
            .await
            .unwrap();
        let claims = claim_everything(&stores, round).await;
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

async fn claim_everything(stores: &[Arc<dyn TaskStore>], round: usize) -> Vec<Claim> {
    let clock = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for index in 0..EXECUTORS {
        let mut worker = Worker::new(&stores[index % JUDICATORS], &format!("e{index}-{round}"));
        let clock = clock.clone();
        running.spawn(async move {
            let now = || clock.fetch_add(1, Ordering::SeqCst);
            let mut claims = vec![];
            let mut empty = 0;
            // An answer may be empty because others overtook it, so one alone does not mean the end.
            while empty < 3 {
                let began = now();
                let assigned = worker.claim(2).await;
                let ended = now();
                empty = if assigned.is_empty() { empty + 1 } else { 0 };
                claims.push(Claim {
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
