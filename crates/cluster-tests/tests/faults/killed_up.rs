use std::time::{Duration, Instant};

use cluster_tests::Load;

use crate::stage::{Chance, Stage};

const KILLS: u32 = 8;
/// A task may be in hand at every one of the kills; how many of them it bears is the matter of another test.
const ATTEMPTS: [&str; 2] = ["--set", "judicator.attempts=100"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_is_killed_under_load() {
    let Stage { system, history } = Stage::new();
    let mut up = system.up(&ATTEMPTS).unwrap();
    let load = Load::start(&system, &history);
    let mut chance = Chance::new();
    load.resumed().await;
    for kill in 1..=KILLS {
        tokio::time::sleep(chance.within(Duration::from_millis(600))).await;
        up.kill();
        let killed = Instant::now();
        if kill % 2 == 0 {
            // Another one that does not get far, perhaps not even to its first request.
            let soon = system.up_soon(&ATTEMPTS).unwrap();
            tokio::time::sleep(chance.within(Duration::from_millis(200))).await;
            soon.kill();
        }
        up = system.up(&ATTEMPTS).unwrap();
        let serves = killed.elapsed();
        load.resumed().await;
        println!(
            "kill {kill}: serves after {serves:?}, runs tasks after {:?}",
            killed.elapsed()
        );
    }
    let kept = load.settle(&system, &history).await;
    println!("{kept} tasks, {} runs", history.runs().len());
    system.remains().await_none().await;
    assert_eq!(history.alive(), [0; 0]);
    up.kill();
    system.remains().await_nobody().await;
}
