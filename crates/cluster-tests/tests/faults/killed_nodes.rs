use std::time::{Duration, Instant};

use cluster_tests::{LoadGenerator, NodeProcess, TestSystem};

use crate::harness::{FaultHarness, RandomPauses};

const KILLS: u32 = 5;
const ATTEMPTS: [&str; 2] = ["--set", "judicator.attempts=100"];

/// A node of a system on one machine that a fault test starts and kills: judicator, executor or gateway.
#[derive(Clone, Copy, PartialEq)]
enum SystemNode {
    Judicator,
    Executor,
    Gateway,
}

impl SystemNode {
    fn start(self, system: &TestSystem) -> NodeProcess {
        let started = match self {
            SystemNode::Judicator => system.judicator(&ATTEMPTS),
            SystemNode::Executor => system.executor("e", &[]),
            SystemNode::Gateway => system.gateway(&[]),
        };
        started.unwrap()
    }
}

/// Kills one node repeatedly while clients add and follow tasks.
async fn kill_under_load(victim: SystemNode) {
    let FaultHarness { system, history } = FaultHarness::new();
    let mut others = Vec::new();
    let mut node = None;
    for kind in [SystemNode::Judicator, SystemNode::Executor, SystemNode::Gateway] {
        let started = kind.start(&system);
        if kind == victim {
            node = Some(started);
        } else {
            others.push(started);
        }
    }
    let mut node = node.unwrap();
    let load = LoadGenerator::start(&system, &history);
    let mut pauses = RandomPauses::new();
    load.wait_for_progress().await;
    for kill in 1..=KILLS {
        tokio::time::sleep(pauses.within(Duration::from_millis(600))).await;
        node.kill();
        let killed = Instant::now();
        tokio::time::sleep(pauses.within(Duration::from_millis(300))).await;
        node = victim.start(&system);
        load.wait_for_progress().await;
        println!(
            "kill {kill}: tasks are added and done after {:?}",
            killed.elapsed()
        );
    }
    let kept = load.stop_and_verify(&system, &history).await;
    println!("{kept} tasks, {} runs", history.runs().len());
    system.leftovers_at("e").wait_until_clean().await;
    assert_eq!(history.alive(), [0; 0]);
    drop((node, others));
    system.leftovers_at("e").wait_until_unused().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_judicator_is_killed_under_load() {
    kill_under_load(SystemNode::Judicator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_executor_is_killed_under_load() {
    kill_under_load(SystemNode::Executor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_killed_under_load() {
    kill_under_load(SystemNode::Gateway).await;
}
