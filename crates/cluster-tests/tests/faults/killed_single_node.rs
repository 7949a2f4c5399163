use std::time::{Duration, Instant};

use cluster_tests::LoadGenerator;

use crate::harness::{FaultHarness, RandomPauses};

const KILLS: u32 = 8;
/// High, because a task may be lost at every kill.
const ATTEMPTS: [&str; 2] = ["--set", "judicator.attempts=100"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_is_killed_under_load() {
    let FaultHarness { system, history } = FaultHarness::new();
    let mut up = system.up(&ATTEMPTS).unwrap();
    let load = LoadGenerator::start(&system, &history);
    let mut pauses = RandomPauses::new();
    load.wait_for_progress().await;
    for kill in 1..=KILLS {
        tokio::time::sleep(pauses.within(Duration::from_millis(600))).await;
        up.kill();
        let killed = Instant::now();
        if kill % 2 == 0 {
            // Killed again while it is starting.
            let soon = system.spawn_up(&ATTEMPTS).unwrap();
            tokio::time::sleep(pauses.within(Duration::from_millis(200))).await;
            soon.kill();
        }
        up = system.up(&ATTEMPTS).unwrap();
        let serves = killed.elapsed();
        load.wait_for_progress().await;
        println!(
            "kill {kill}: serves after {serves:?}, runs tasks after {:?}",
            killed.elapsed()
        );
    }
    let kept = load.stop_and_verify(&system, &history).await;
    println!("{kept} tasks, {} runs", history.runs().len());
    system.leftovers().wait_until_clean().await;
    assert_eq!(history.alive(), [0; 0]);
    up.kill();
    system.leftovers().wait_until_unused().await;
}
