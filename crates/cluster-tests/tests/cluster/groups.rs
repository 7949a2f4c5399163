use std::collections::BTreeMap;
use std::time::Duration;

use api::{GroupState, NewTask};
use cluster_tests::{ClusterProcess, GatewayClients, TestCluster, wait_until};
use model::{GroupName, UserName};
use nix::sys::signal::Signal;
use serde_json::json;

const SOON: Duration = Duration::from_secs(90);
const TASKS: usize = 600;

/// Every third task fails.
fn tasks() -> Vec<NewTask> {
    let task = |number: usize| {
        json!({
            "id": uuid::Uuid::now_v7().to_string(),
            "user": "ada",
            "group": "g",
            "execute": {"command": if number.is_multiple_of(3) { "false" } else { "true" }},
        })
    };
    (0..TASKS)
        .map(|number| serde_json::from_value(task(number)).unwrap())
        .collect()
}

/// The state of the group. Asserts that it counts each task once.
async fn group(gateways: &GatewayClients, total: usize) -> GroupState {
    let (name, user) = (GroupName::new("g").unwrap(), UserName::new("ada").unwrap());
    let state = wait_until("the state of the group", SOON, async || {
        let answer = gateways.call(async |client| client.group(&name, Some(&user), None).await);
        answer.await?.ok()
    })
    .await;
    let counted: u64 = state.counts.values().sum();
    assert_eq!((counted, state.total), (total as u64, total as u64), "{state:?}");
    state
}

/// The counts of a group are written together with its tasks, so they are right after every failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_counted_correctly_across_kills_of_the_primary() {
    let mut cluster = TestCluster::with_executors_and_gateway(3).await;
    let gateways = cluster.gateways();
    let process = ClusterProcess::Server("mongodb");
    let mut added = 0;
    for chunk in tasks().chunks(TASKS / 2) {
        wait_until("the tasks to be added", SOON, async || {
            let answer = gateways.call(async |client| client.add_many(chunk.to_vec()).await);
            answer.await?.ok()
        })
        .await;
        added += chunk.len();
        let before = group(&gateways, added).await;
        let primary = cluster.primary().await;
        let killed = cluster.node_mut(&primary).signal(process, Signal::SIGKILL).await;
        let after = group(&gateways, added).await;
        println!(
            "killed the mongod of {primary} with {} to {} done",
            before.done, after.done
        );
        assert!(after.done >= before.done);
        cluster.node(&primary).wait_until_replaced(process, killed).await;
    }
    let state = wait_until("all tasks to be done", SOON, async || {
        let state = group(&gateways, TASKS).await;
        (state.done == state.total).then_some(state)
    })
    .await;
    let failed = TASKS.div_ceil(3) as u64;
    assert_eq!(
        (state.counts["run_failed"], state.counts["success"]),
        (failed, TASKS as u64 - failed)
    );
    assert_eq!(state.reasons, BTreeMap::from([("exited".to_string(), failed)]));
}
