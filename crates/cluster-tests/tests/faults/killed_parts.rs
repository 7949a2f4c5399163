use std::time::{Duration, Instant};

use cluster_tests::{Load, Node, System};

use crate::stage::{Chance, Stage};

const KILLS: u32 = 5;
const ATTEMPTS: [&str; 2] = ["--set", "judicator.attempts=100"];

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Judicator,
    Executor,
    Gateway,
}

impl Part {
    fn start(self, system: &System) -> Node {
        let started = match self {
            Part::Judicator => system.judicator(&ATTEMPTS),
            Part::Executor => system.executor("e", &[]),
            Part::Gateway => system.gateway(&[]),
        };
        started.unwrap()
    }
}

/// Kills one of the three again and again while clients add and follow tasks.
async fn kill_under_load(victim: Part) {
    let Stage { system, history } = Stage::new();
    let mut others = Vec::new();
    let mut node = None;
    for part in [Part::Judicator, Part::Executor, Part::Gateway] {
        let started = part.start(&system);
        if part == victim {
            node = Some(started);
        } else {
            others.push(started);
        }
    }
    let mut node = node.unwrap();
    let load = Load::start(&system, &history);
    let mut chance = Chance::new();
    load.resumed().await;
    for kill in 1..=KILLS {
        tokio::time::sleep(chance.within(Duration::from_millis(600))).await;
        node.kill();
        let killed = Instant::now();
        tokio::time::sleep(chance.within(Duration::from_millis(300))).await;
        node = victim.start(&system);
        load.resumed().await;
        println!(
            "kill {kill}: tasks are added and done after {:?}",
            killed.elapsed()
        );
    }
    let kept = load.settle(&system, &history).await;
    println!("{kept} tasks, {} runs", history.runs().len());
    system.remains_at("e").await_none().await;
    assert_eq!(history.alive(), [0; 0]);
    drop((node, others));
    system.remains_at("e").await_nobody().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_judicator_is_killed_under_load() {
    kill_under_load(Part::Judicator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_executor_is_killed_under_load() {
    kill_under_load(Part::Executor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_killed_under_load() {
    kill_under_load(Part::Gateway).await;
}
